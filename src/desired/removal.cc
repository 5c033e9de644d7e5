#include "desired/removal.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "api/labels.h"
#include "desired/owned_object.h"
#include "kube/ownership.h"

namespace pitcrew::desired {
namespace {

using Identity = std::tuple<std::string_view, std::string_view, kube::ObjectKey>;

Identity IdentityOf(const kube::ResourceKind& kind, kube::ObjectKey key) {
  return {kind.group, kind.kind, std::move(key)};
}

// All that any operand wants, made or left alone.
std::set<Identity> WantedBy(std::span<const RenderedOperand> rendered) {
  std::set<Identity> wanted;
  const auto add = [&](const std::vector<Object>& objects) {
    for (const Object& object : objects) {
      if (const kube::ResourceKind* kind = KindOf(object)) {
        wanted.insert(IdentityOf(*kind, kube::KeyOf(object)));
      }
    }
  };
  for (const RenderedOperand& operand : rendered) {
    if (operand.objects) add(*operand.objects);
    add(operand.left_alone);
  }
  return wanted;
}

// Null where no operand of that state was rendered.
const RenderedOperand* FindByState(std::span<const RenderedOperand> rendered,
                                   std::string_view state) {
  const auto found = std::ranges::find(
      rendered, state, [](const RenderedOperand& operand) { return operand.operand->state; });
  return found == rendered.end() ? nullptr : &*found;
}

// Why an object that nobody wants goes, if it does.
std::optional<RemovalReason> ReasonFor(const StandingObject& object,
                                       std::span<const RenderedOperand> rendered,
                                       const OperandTable& operands) {
  const RenderedOperand* owner = FindByState(rendered, object.state);
  if (owner == nullptr) {
    if (object.state.empty() || operands.OfState(object.state) != nullptr) return std::nullopt;
    return RemovalReason::kNoSuchOperand;
  }
  const bool is_daemonset = *object.kind == kube::kDaemonSets;
  switch (owner->mode) {
    case Mode::kDisabled:
      return RemovalReason::kSwitchedOff;
    case Mode::kDelegated:
      return is_daemonset ? std::optional(RemovalReason::kDelegated) : std::nullopt;
    case Mode::kEnabled:
      break;
  }
  if (!owner->objects || (owner->daemonsets_withheld && is_daemonset)) return std::nullopt;
  return RemovalReason::kNoLongerPart;
}

// Why a DaemonSet of a former NVIDIADriver of the same name goes, if it does.
std::optional<RemovalReason> ReasonForFormer(const StandingObject& object,
                                             std::span<const RenderedOperand> rendered) {
  const RenderedOperand* operand = FindByState(rendered, object.state);
  if (operand == nullptr) return std::nullopt;
  const auto has_daemonset = [&] {
    return operand->objects && std::ranges::any_of(*operand->objects, [](const Object& wanted) {
             return codec::FindString(wanted, {"kind"}) == "DaemonSet";
           });
  };
  if (operand->mode == Mode::kDelegated || (operand->mode == Mode::kEnabled && has_daemonset())) {
    return RemovalReason::kFormerObject;
  }
  return std::nullopt;
}

// Whether another DaemonSet of the operand has drivers that are upgraded node by node.
bool HasDriverDaemonSet(std::span<const RenderedOperand> rendered, std::string_view state) {
  const RenderedOperand* operand = FindByState(rendered, state);
  return operand != nullptr && operand->objects &&
         std::ranges::any_of(*operand->objects, IsDriverDaemonSet);
}

}  // namespace

bool IsDriverDaemonSet(const Object& object) {
  return codec::FindString(object, {"kind"}) == "DaemonSet" &&
         codec::FindString(object, {"metadata", "labels", api::kComponentLabel}) ==
             api::kDriverComponent;
}

std::string StateOfObject(const codec::Json& object, const OperandTable& operands) {
  std::string state = codec::FindString(object, {"metadata", "labels", api::kStateLabel});
  return state.empty() ? std::string(operands.StateOfName(object)) : state;
}

StandingObject StandingOf(const kube::ResourceKind& kind, const codec::Json& object,
                          const OperandTable& operands) {
  const auto owner = kube::ControllerOf(object);
  return {.kind = &kind,
          .key = kube::KeyOf(object),
          .uid = codec::FindString(object, {"metadata", "uid"}),
          .owner_uid = owner ? owner->uid : "",
          .state = StateOfObject(object, operands),
          .deleting = codec::Find(object, {"metadata", "deletionTimestamp"}) != nullptr,
          .driver_object = kind == kube::kDaemonSets ? DriverObjectOf(object) : ""};
}

std::string_view ToString(RemovalReason reason) {
  switch (reason) {
    case RemovalReason::kSwitchedOff:
      return "the operand is switched off";
    case RemovalReason::kDelegated:
      return "the operand is left to NVIDIADriver objects";
    case RemovalReason::kNoLongerPart:
      return "no longer part of the operand";
    case RemovalReason::kNoSuchOperand:
      return "no operand has this state any more";
    case RemovalReason::kFormerObject:
      return "of a former NVIDIADriver of the same name";
  }
  return "";
}

std::vector<Removal> DecideRemovals(std::span<const RenderedOperand> rendered,
                                    std::span<const StandingObject> standing,
                                    std::string_view owner_uid, const OperandTable& operands,
                                    std::string_view driver_object) {
  std::vector<Removal> removals;
  if (owner_uid.empty()) return removals;
  const std::set<Identity> wanted = WantedBy(rendered);
  for (const StandingObject& object : standing) {
    const bool own = object.owner_uid == owner_uid;
    const bool former = !own && !driver_object.empty() && object.driver_object == driver_object;
    if ((!own && !former) || object.deleting) continue;
    if (wanted.contains(IdentityOf(*object.kind, object.key))) continue;
    const auto reason =
        own ? ReasonFor(object, rendered, operands) : ReasonForFormer(object, rendered);
    if (!reason) continue;
    removals.push_back({.object = object,
                        .reason = *reason,
                        .orphans_pods = *reason == RemovalReason::kDelegated ||
                                        *reason == RemovalReason::kFormerObject,
                        .passes_pods_on = *reason == RemovalReason::kNoLongerPart &&
                                          *object.kind == kube::kDaemonSets &&
                                          HasDriverDaemonSet(rendered, object.state)});
  }
  return removals;
}

}  // namespace pitcrew::desired
