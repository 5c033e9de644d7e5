// Keeps permittedHostDevices equal to what nodes offer: which entries are added, and which of those
// that were added before are taken away; pure.
//
// Whose an entry is. KubeVirt's lists have no keys, so that an API server cannot tell owners of
// entries apart, and a HyperConverged object is converted between versions, which loses them. So
// what was added stands in an annotation of the same object, written in the same patch. An entry is
// ours while it stands just as it is written there; as soon as a person changes it, it is theirs.
// Entries of people, their order, and lists and fields that they have are never touched
// (virtualisation-and-olm.md section 6).
//
// When an entry goes. Only on evidence that nobody can want it: no node lists the resource, no node
// of the workload could yet (it knows the resource, or has not offered anything so far), no virtual
// machine names it, and all that has been so for a while. What could not be read takes nothing
// away.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/cluster_policy.h"
#include "base/observed.h"
#include "base/result.h"
#include "codec/json.h"
#include "gpu/device_names.h"
#include "kubevirt/kinds.h"
#include "kubevirt/offers.h"
#include "kubevirt/permitted.h"

namespace pitcrew::kubevirt {

// Of a KubeVirt or HyperConverged object: what we added to it, as JSON.
inline constexpr std::string_view kRecordAnnotation =
    "nvidia.com/gpu-operator.permitted-host-devices";

struct Facts {
  // Those with the label of the device plugin. Unknown: nothing is decided.
  std::vector<MachineNode> nodes;
  // Of the active policy.
  api::SandboxWorkloads sandbox;
  // Resources that virtual machines name. Unknown: nothing is taken away, and no field is made
  // where there was none.
  base::Observed<std::set<std::string>> named = base::Observed<std::set<std::string>>::Missing();
};

// A resource that is not permitted as it should be, and what a person may do about it.
struct Obstacle {
  std::string reason;  // CamelCase, for an Event
  std::string message;

  bool operator==(const Obstacle&) const = default;
};

struct Decision {
  std::vector<Entry> added;
  std::vector<Entry> removed;
  // Ours, that nobody wants and that are not in `expired` yet.
  std::vector<Entry> unused;
  std::vector<Obstacle> obstacles;
  // RFC 7386, without a resourceVersion; none when nothing is to be written.
  std::optional<codec::Json> patch;
};

// `expired`: resources whose entries nobody has wanted for long enough, as Decision::unused of
// earlier looks told. kInvalid when lists or annotation cannot be read: a person has to mend them.
base::Result<Decision> Decide(const codec::Json& object, Form form, const Facts& facts,
                              const gpu::DeviceNames& names, const std::set<std::string>& expired);

// Takes all away that we added: what uninstalls.
base::Result<Decision> DecideRestore(const codec::Json& object, Form form);

// Whether an object has anything of ours.
bool HasRecord(const codec::Json& object);

}  // namespace pitcrew::kubevirt
