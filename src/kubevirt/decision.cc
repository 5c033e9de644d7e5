#include "kubevirt/decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/strings.h"
#include "desired/workload.h"
#include "kubevirt/record.h"

namespace pitcrew::kubevirt {
namespace {

using codec::Json;
using desired::Workload;

constexpr List kLists[] = {List::kPci, List::kMediated};

std::string Describe(const Entry& entry) {
  return fmt::format("{} {} ({})", NameOf(entry.list), entry.selector, entry.resource);
}

std::map<std::string, std::vector<std::string>> OfferedBy(const std::vector<MachineNode>& nodes) {
  std::map<std::string, std::vector<std::string>> offered;
  for (const MachineNode& node : nodes) {
    for (const auto& [resource, amount] : node.capacity) {
      if (amount > 0) offered[resource].push_back(node.name);
    }
  }
  return offered;
}

// A node may offer the entry's resource later without a change of its workload. One for containers
// is here because some of its GPUs are for virtual machines, as whole ones.
bool CouldOffer(const MachineNode& node, const Entry& entry, const api::SandboxWorkloads& sandbox) {
  const Workload workload = desired::WorkloadFor(node.workload, sandbox);
  const bool fits =
      entry.list == List::kPci ? workload != Workload::kVgpu : workload == Workload::kVgpu;
  if (!fits) return false;
  return node.capacity.empty() || node.capacity.contains(entry.resource);
}

class Decider {
 public:
  Decider(const Json& object, Form form, Permitted permitted, Record record)
      : object_(object),
        form_(form),
        permitted_(std::move(permitted)),
        before_(std::move(record)),
        record_(before_) {
    // What a person has changed or taken away is no longer ours.
    std::erase_if(record_.entries, [&](const Entry& own) {
      return std::ranges::find(permitted_.entries, own) == permitted_.entries.end();
    });
  }

  // Those of ours that `unwanted` says.
  void Remove(const std::function<bool(const Entry&)>& unwanted) {
    std::erase_if(record_.entries, [&](const Entry& own) {
      if (!unwanted(own)) return false;
      decision_.removed.push_back(own);
      permitted_.entries.erase(std::ranges::find(permitted_.entries, own));
      return true;
    });
  }

  void Permit(const std::string& resource, const std::vector<std::string>& nodes,
              const gpu::DeviceNames& names);
  // Where nothing is said about devices, all are permitted: a list would refuse what it lacks.
  void HoldWhereAllIsPermitted(const base::Observed<std::set<std::string>>& named);
  Decision Finish() &&;

  [[nodiscard]] const std::vector<Entry>& own() const { return record_.entries; }
  void AddUnused(const Entry& entry) { decision_.unused.push_back(entry); }

 private:
  [[nodiscard]] std::string Name() const {
    return fmt::format("{} {}", KindOf(form_).kind, kube::KeyOf(object_).ToString());
  }
  [[nodiscard]] bool IsOwn(const Entry& entry) const {
    return std::ranges::find(record_.entries, entry) != record_.entries.end();
  }
  void Hinder(std::string reason, std::string message) {
    decision_.obstacles.push_back({std::move(reason), std::move(message)});
  }
  // What a person says about the resource; true when that settles it.
  bool SettledByOthers(const std::string& resource);
  // Remembers the fields that come with what is added.
  void NoteMade();
  [[nodiscard]] Json MakePatch() const;
  [[nodiscard]] bool IsListChanged(List list) const;
  [[nodiscard]] Json ListAfter(List list) const;

  const Json& object_;
  Form form_;
  Permitted permitted_;  // as it will be
  Record before_;
  Record record_;  // as it will be
  Decision decision_;
};

bool Decider::SettledByOthers(const std::string& resource) {
  for (const Entry* entry : permitted_.Naming(resource)) {
    if (IsOwn(*entry)) continue;
    if (entry->disabled) {
      Hinder("PermittedDeviceDisabled",
             fmt::format("{} is not permitted: a person has disabled its entry {} in {}", resource,
                         Describe(*entry), FieldPath(form_)));
    } else if (!entry->external) {
      Hinder("PermittedDeviceOfferedTwice",
             fmt::format("KubeVirt offers {} itself, and so does the GPU device plugin: set "
                         "externalResourceProvider: true in the entry {} of {}, or disable the "
                         "operator's sandboxDevicePlugin",
                         resource, Describe(*entry), FieldPath(form_)));
    }
    return true;
  }
  return permitted_.usb.contains(resource);
}

void Decider::Permit(const std::string& resource, const std::vector<std::string>& nodes,
                     const gpu::DeviceNames& names) {
  if (SettledByOthers(resource)) return;
  const auto entries = EntriesFor(resource, names);
  if (entries.empty()) {
    Hinder("PermittedDeviceUnknown",
           fmt::format("node {} offers {}, which is neither a GPU of the PCI ID database nor a "
                       "vGPU type: permit it in {} by hand",
                       nodes.front(), resource, FieldPath(form_)));
  }
  for (const Entry& wanted : entries) {
    const auto taken = std::ranges::find_if(permitted_.entries, [&](const Entry& entry) {
      return entry.list == wanted.list && SameSelector(entry.list, entry.selector, wanted.selector);
    });
    if (taken == permitted_.entries.end()) {
      permitted_.entries.push_back(wanted);
      record_.entries.push_back(wanted);
      decision_.added.push_back(wanted);
    } else if (taken->resource != resource) {
      Hinder(
          "PermittedDeviceConflict",
          fmt::format("node {} offers {} as {}, and {} permits it as {}: virtual machines that "
                      "ask for {} are refused; change that entry's resourceName, or take it away",
                      nodes.front(), wanted.selector, resource, FieldPath(form_), taken->resource,
                      resource));
    }
  }
}

void Decider::HoldWhereAllIsPermitted(const base::Observed<std::set<std::string>>& named) {
  if (permitted_.stated || decision_.added.empty() || named.is_absent()) return;
  std::vector<std::string> refused;
  if (named.is_present()) {
    for (const std::string& resource : *named.value()) {
      if (permitted_.Naming(resource).empty()) refused.push_back(resource);
    }
    if (refused.empty()) return;
  }
  decision_.added.clear();
  record_ = before_;
  permitted_.entries.clear();
  if (named.is_unknown()) {
    Hinder("PermittedDevicesHeld",
           fmt::format("{} has no {}, which permits every device; nothing is written there while "
                       "it is not known which devices virtual machines use: {}",
                       Name(), FieldPath(form_), named.error()->message));
    return;
  }
  Hinder("PermittedDevicesHeld",
         fmt::format("{} has no {}, which permits every device, and virtual machines use {}: a "
                     "list without it would refuse them. Add an entry for it, and the GPUs are "
                     "added to it",
                     Name(), FieldPath(form_), base::Join(refused, ", ")));
}

bool Decider::IsListChanged(List list) const {
  const auto in_list = [&](const Entry& entry) { return entry.list == list; };
  return std::ranges::any_of(decision_.added, in_list) ||
         std::ranges::any_of(decision_.removed, in_list);
}

// The entries as they stand, word for word, without those that go, and with those that come.
Json Decider::ListAfter(List list) const {
  std::vector<Entry> going = decision_.removed;
  Json after = Json::array();
  const Json* permitted = FindPermitted(object_, form_);
  const Json* standing = permitted == nullptr ? nullptr : codec::Find(*permitted, {NameOf(list)});
  if (standing != nullptr && standing->is_array()) {
    for (const Json& entry : *standing) {
      const auto gone = std::ranges::find(going, ReadEntry(entry, list, form_));
      if (gone == going.end()) {
        after.push_back(entry);
      } else {
        going.erase(gone);  // another one like it is a person's
      }
    }
  }
  for (const Entry& entry : decision_.added) {
    if (entry.list == list) after.push_back(ToJson(entry, form_));
  }
  if (after.empty() && before_.made.contains(std::string(NameOf(list)))) return nullptr;
  return after;
}

// Fields that we made go with their last member.
Json Decider::MakePatch() const {
  Json lists = Json::object();
  for (const List list : kLists) {
    if (IsListChanged(list)) lists[std::string(NameOf(list))] = ListAfter(list);
  }
  Json patch = lists.empty() ? Json::object() : PatchOf(form_, lists);
  const Json* standing = FindPermitted(object_, form_);
  const auto is_left_empty = [](Json value, const Json& change) {
    codec::ApplyMergePatch(value, change);
    return value.empty();
  };
  if (record_.entries.empty() && standing != nullptr && is_left_empty(*standing, lists) &&
      before_.made.contains(std::string(kPermittedField))) {
    patch = PatchOf(form_, nullptr);
    const std::string parent(ParentField(form_));
    if (before_.made.contains(parent) && object_["spec"][parent].size() == 1) {
      patch["spec"][parent] = nullptr;
    }
  }
  const std::string text = ToText(record_);
  patch["metadata"]["annotations"][std::string(kRecordAnnotation)] =
      text.empty() ? Json(nullptr) : Json(text);
  return patch;
}

void Decider::NoteMade() {
  const Json* standing = FindPermitted(object_, form_);
  for (const Entry& entry : decision_.added) {
    const auto name = NameOf(entry.list);
    if (standing == nullptr || codec::Find(*standing, {name}) == nullptr) {
      record_.made.emplace(name);
    }
  }
  if (standing != nullptr || decision_.added.empty()) return;
  record_.made.emplace(kPermittedField);
  const auto parent = ParentField(form_);
  if (!parent.empty() && codec::Find(object_, {"spec", parent}) == nullptr) {
    record_.made.emplace(parent);
  }
}

Decision Decider::Finish() && {
  NoteMade();
  if (record_.entries.empty()) record_ = {};
  if (record_ != before_ || !decision_.added.empty() || !decision_.removed.empty()) {
    decision_.patch = MakePatch();
  }
  return std::move(decision_);
}

base::Result<Decider> Begin(const Json& object, Form form) {
  TRY_ASSIGN(auto permitted, ReadPermitted(object, form));
  TRY_ASSIGN(auto record, ReadRecord(object, kRecordAnnotation));
  return Decider(object, form, std::move(permitted), std::move(record));
}

}  // namespace

bool HasRecord(const Json& object) {
  return codec::Find(object, {"metadata", "annotations", kRecordAnnotation}) != nullptr;
}

base::Result<Decision> Decide(const Json& object, Form form, const Facts& facts,
                              const gpu::DeviceNames& names, const std::set<std::string>& expired) {
  TRY_ASSIGN(Decider decider, Begin(object, form));
  const auto offered = OfferedBy(facts.nodes);
  const auto is_wanted = [&](const Entry& own) {
    return offered.contains(own.resource) || facts.named.is_unknown() ||
           (facts.named.is_present() && facts.named.value()->contains(own.resource)) ||
           std::ranges::any_of(facts.nodes, [&](const MachineNode& node) {
             return CouldOffer(node, own, facts.sandbox);
           });
  };
  decider.Remove(
      [&](const Entry& own) { return !is_wanted(own) && expired.contains(own.resource); });
  for (const Entry& own : decider.own()) {
    if (!is_wanted(own)) decider.AddUnused(own);
  }
  for (const auto& [resource, nodes] : offered) decider.Permit(resource, nodes, names);
  decider.HoldWhereAllIsPermitted(facts.named);
  return std::move(decider).Finish();
}

base::Result<Decision> DecideRestore(const Json& object, Form form) {
  TRY_ASSIGN(Decider decider, Begin(object, form));
  decider.Remove([](const Entry&) { return true; });
  return std::move(decider).Finish();
}

}  // namespace pitcrew::kubevirt
