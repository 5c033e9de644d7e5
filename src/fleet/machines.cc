#include "fleet/machines.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "fleet/fields.h"
#include "kubevirt/offers.h"

namespace pitcrew::fleet {

using codec::Json;

std::string Machine::ToString() const { return kind + " " + key.ToString(); }

std::string Permission::ToString() const {
  return fmt::format("{} {}", kubevirt::KindOf(form).kind, key.ToString());
}

const Condition* Machine::Said(std::string_view words) const {
  const auto found = std::ranges::find_if(conditions, [&](const Condition& condition) {
    return condition.message.find(words) != std::string::npos;
  });
  return found == conditions.end() ? nullptr : &*found;
}

Machine ReadMachine(const Json& object) {
  Machine machine{.key = ReadKey(object),
                  .kind = codec::FindString(object, {"kind"}),
                  .resources = kubevirt::ReadNamedResources(object),
                  .waits = false,
                  .conditions = {},
                  .created = ReadTime(object, {"metadata", "creationTimestamp"})};
  std::erase_if(machine.resources, [](const std::string& resource) {
    return !resource.starts_with(api::kResourcePrefix);
  });
  if (const Json* conditions = codec::Find(object, {"status", "conditions"});
      conditions != nullptr && conditions->is_array()) {
    for (const Json& one : *conditions) {
      machine.conditions.push_back({.type = codec::FindString(one, {"type"}),
                                    .status = codec::FindString(one, {"status"}),
                                    .reason = codec::FindString(one, {"reason"}),
                                    .message = codec::FindString(one, {"message"}),
                                    .since = ReadTime(one, {"lastTransitionTime"})});
    }
  }
  if (machine.kind == "VirtualMachineInstance") {
    const auto phase = codec::FindString(object, {"status", "phase"});
    machine.waits = phase != "Running" && phase != "Succeeded" && phase != "Failed";
  } else {
    machine.waits = std::ranges::any_of(machine.conditions, [](const Condition& condition) {
      return condition.type == "Failure" && condition.status == "True";
    });
  }
  return machine;
}

std::optional<Permission> ReadPermission(const Json& object) {
  const auto form = kubevirt::FormOf(object);
  if (!form) return std::nullopt;
  auto permitted = kubevirt::ReadPermitted(object, *form);
  if (!permitted) return std::nullopt;
  return Permission{.key = ReadKey(object), .form = *form, .permitted = *std::move(permitted)};
}

}  // namespace pitcrew::fleet
