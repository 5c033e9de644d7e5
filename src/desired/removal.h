// Which of the objects that stand are removed: one pure function for the operator, which removes
// them, and for `pitcrew plan`, which tells of them (reference operator-behaviour.md sections 6.1
// and 14).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"
#include "desired/render.h"
#include "kube/resource.h"

namespace pitcrew::desired {

// An object of the cluster, as far as its removal depends on it.
struct StandingObject {
  const kube::ResourceKind* kind = nullptr;  // never null; borrowed
  kube::ObjectKey key;
  std::string uid;
  std::string owner_uid;  // of its controller
  std::string state;      // StateOfObject
  bool deleting = false;
  std::string driver_object = {};  // DriverObjectOf
};
// `kind` must outlive the result.
StandingObject StandingOf(const kube::ResourceKind& kind, const codec::Json& object,
                          const OperandTable& operands = Operands());

// A DaemonSet whose pods are drivers that are upgraded node by node.
bool IsDriverDaemonSet(const Object& object);

// The state that an object belongs to: its inventory label, or what its name says when upstream's
// operator made it. "" when it belongs to none.
std::string StateOfObject(const codec::Json& object, const OperandTable& operands = Operands());

enum class RemovalReason {
  kSwitchedOff,    // the policy does not want the operand
  kDelegated,      // NVIDIADriver objects take the operand's DaemonSets over
  kNoLongerPart,   // the operand is wanted, and this object is no part of it any more
  kNoSuchOperand,  // an earlier version had this operand
  kFormerObject,   // of a NVIDIADriver that was deleted and made anew: the new one has its own
};
std::string_view ToString(RemovalReason reason);

struct Removal {
  StandingObject object;
  RemovalReason reason = RemovalReason::kSwitchedOff;
  // Its pods stay: running driver pods outlive a DaemonSet that is handed over.
  bool orphans_pods = false;
  // Of a driver's DaemonSet, while the operand has others for its nodes: pods that run are theirs
  // before it goes, and replaced one after the other like those of any former version.
  bool passes_pods_on = false;
};

// Of what stands, the owner's own objects that nothing wants any more, in the order of `standing`.
// What could not be read is not to be in `standing`, and so is never removed. An operand that could
// not be rendered, or that is not in `rendered`, keeps all it has; so does everything without an
// owner (an empty `owner_uid`).
//
// `driver_object`: the owner is the NVIDIADriver of that name. DaemonSets of former ones of the
// name, which are called after those's UIDs, go without their pods, once the owner has some of its
// own or leaves the driver to the policy: while they stand their pods hold the nodes. That the
// owner is the one which has the name now is to be read before one is deleted (kFormerObject).
std::vector<Removal> DecideRemovals(std::span<const RenderedOperand> rendered,
                                    std::span<const StandingObject> standing,
                                    std::string_view owner_uid,
                                    const OperandTable& operands = Operands(),
                                    std::string_view driver_object = {});

}  // namespace pitcrew::desired
