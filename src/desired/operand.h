// One operand: what the operator deploys under one of upstream's state names. Adding one is a
// folder manifests/<state>/, a file operands/<operand>.cc with a descriptor and a pure customize
// function, a line in operands/registry.cc and a golden case.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "base/result.h"
#include "desired/facts.h"
#include "desired/image.h"
#include "desired/manifest.h"

namespace pitcrew::desired {

// Everything that rendering may look at.
struct Context {
  const api::ClusterPolicy& policy;
  const Facts& facts;
  const DefaultImages& images;
  std::string operator_namespace;
};

// What the policy wants of an operand.
enum class Mode {
  kEnabled,
  kDisabled,   // what it had is removed
  kDelegated,  // NVIDIADriver objects decide: only its DaemonSets are let go, their pods stay
};

struct Operand {
  // Upstream's state name; also the folder of its manifests.
  std::string_view state;
  // Type of its condition on the ClusterPolicy, "DriverReady".
  std::string_view condition;
  // For messages: "the driver".
  std::string_view title;
  // Blocks of the spec that it reads beside the common ones; a problem in any of them fails it.
  std::vector<std::string_view> blocks;
  // Null: always enabled.
  Mode (*mode)(const Context&);
  // Changes the loaded manifests to what the policy wants; may add and drop objects. The common
  // settings of all DaemonSets are already in them (daemonset.h). Errors begin with the field's
  // path. Null: the manifests as they are.
  base::Status (*customize)(std::vector<Object>& objects, const Context& context);
  // Objects of the manifests that something of the user's replaces: neither made, nor changed, nor
  // removed. Null: none.
  bool (*leaves_alone)(const Object& object, const Context& context) = nullptr;
};

// In upstream's order, which is the order of roll-out (reference operator-behaviour.md section 5).
std::span<const Operand> Operands();

}  // namespace pitcrew::desired
