#include "plan/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "desired/owned_object.h"
#include "desired/quantity.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using desired::Covers;
using desired::SaysNothing;
using Changes = std::vector<FieldChange>;

bool IsPlainWord(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char letter) {
    return (std::isalnum(static_cast<unsigned char>(letter)) != 0) || letter == '_' ||
           letter == '-';
  });
}

std::string PathOfItem(const std::string& path, std::string_view item) {
  return fmt::format("{}[{}]", path, item);
}

std::string TextOfKey(const Json& key) {
  return key.is_string() ? key.get<std::string>() : codec::ToJsonText(key);
}

// Items of a list by the member that names them; nothing when that member does not.
using Items = std::map<std::string, const Json*>;
std::optional<Items> ByMember(const Json& list, const char* member) {
  Items items;
  for (const Json& item : list) {
    if (!item.is_object()) return std::nullopt;
    const auto key = item.find(member);
    if (key == item.end() || key->is_structured()) return std::nullopt;
    if (!items.emplace(TextOfKey(*key), &item).second) return std::nullopt;
  }
  return items;
}

void CompareValues(const Json& live, const Json& desired, const std::string& path,
                   Changes& changes);

void CompareItems(const Items& live, const Items& desired, const std::string& path,
                  Changes& changes) {
  for (const auto& [name, item] : desired) {
    const auto found = live.find(name);
    if (found == live.end()) {
      changes.push_back({.path = PathOfItem(path, name), .before = {}, .after = *item});
    } else {
      CompareValues(*found->second, *item, PathOfItem(path, name), changes);
    }
  }
  for (const auto& [name, item] : live) {
    if (!desired.contains(name)) {
      changes.push_back({.path = PathOfItem(path, name), .before = *item, .after = {}});
    }
  }
}

void CompareLists(const Json& live, const Json& desired, const std::string& path,
                  Changes& changes) {
  if (Covers(live, desired)) return;
  // What names the items of Kubernetes' lists. Mounts come first: their `name` is the volume's.
  for (const char* member : {"mountPath", "name", "containerPort", "port", "key"}) {
    const auto live_items = ByMember(live, member);
    const auto desired_items = ByMember(desired, member);
    if (!live_items || !desired_items) continue;
    const std::size_t before = changes.size();
    CompareItems(*live_items, *desired_items, path, changes);
    if (changes.size() > before) return;
    break;  // the same items in another order
  }
  if (live.size() == desired.size() && !live.empty() && live.front().is_object()) {
    for (std::size_t i = 0; i < live.size(); ++i) {
      CompareValues(live[i], desired[i], PathOfItem(path, std::to_string(i)), changes);
    }
    return;
  }
  changes.push_back({.path = path, .before = live, .after = desired});
}

void CompareQuantities(const Json& live, const Json& desired, const std::string& path,
                       Changes& changes) {
  for (const auto& [name, value] : desired.items()) {
    const auto found = live.find(name);
    if (found == live.end()) {
      changes.push_back({.path = PathOfMember(path, name), .before = {}, .after = value});
    } else if (!desired::SameQuantity(*found, value)) {
      CompareValues(*found, value, PathOfMember(path, name), changes);
    }
  }
}

void CompareValues(const Json& live, const Json& desired, const std::string& path,
                   Changes& changes) {
  if (desired.is_object() && live.is_object()) {
    for (const auto& [name, value] : desired.items()) {
      const auto found = live.find(name);
      if (found != live.end() && desired::HoldsQuantities(name) && found->is_object() &&
          value.is_object()) {
        CompareQuantities(*found, value, PathOfMember(path, name), changes);
      } else if (found != live.end()) {
        CompareValues(*found, value, PathOfMember(path, name), changes);
      } else if (!SaysNothing(value)) {
        changes.push_back({.path = PathOfMember(path, name), .before = {}, .after = value});
      }
    }
  } else if (desired.is_array() && live.is_array()) {
    CompareLists(live, desired, path, changes);
  } else if (!Covers(live, desired)) {
    changes.push_back({.path = path, .before = live, .after = desired});
  }
}

// The item of a list that a key of managed fields ("k:{...}" without the prefix) means; null when
// there is none.
const Json* FindByKey(const Json* list, const Json& key) {
  if (list == nullptr || !list->is_array()) return nullptr;
  for (const Json& item : *list) {
    if (item.is_object() && Covers(item, key)) return &item;
  }
  return nullptr;
}

// Walks a tree of managed fields beside both objects.
void FindAbandoned(const Json& fields, const Json* live, const Json* desired,
                   const std::string& path, Changes& changes) {
  if (live == nullptr || !fields.is_object()) return;
  bool leaf = true;
  for (const auto& [name, inside] : fields.items()) leaf = leaf && name == ".";
  if (desired == nullptr && leaf) {
    if (!SaysNothing(*live)) changes.push_back({.path = path, .before = *live, .after = {}});
    return;
  }
  for (const auto& [name, inside] : fields.items()) {
    const std::string_view text = name;
    if (text.starts_with("f:")) {
      const std::string member(text.substr(2));
      const auto below = [&](const Json* object) -> const Json* {
        if (object == nullptr || !object->is_object()) return nullptr;
        const auto found = object->find(member);
        return found == object->end() ? nullptr : &*found;
      };
      FindAbandoned(inside, below(live), below(desired), PathOfMember(path, member), changes);
    } else if (text.starts_with("k:")) {
      const auto key = codec::ParseJson(text.substr(2));
      if (!key || !key->is_object() || key->empty()) continue;
      const Json* item = FindByKey(desired, *key);
      // A list that is applied otherwise tells about its items by itself (FieldChanges).
      if (item == nullptr && desired != nullptr) continue;
      FindAbandoned(inside, FindByKey(live, *key), item,
                    PathOfItem(path, TextOfKey(key->begin().value())), changes);
    }
  }
}

}  // namespace

std::string PathOfMember(const std::string& path, std::string_view name) {
  if (!IsPlainWord(name)) return PathOfItem(path, name);
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

std::vector<FieldChange> FieldChanges(const Json& live, const Json& desired) {
  Changes changes;
  CompareValues(live, desired, "", changes);
  return changes;
}

std::vector<FieldChange> AbandonedFields(const Json& live, const Json& desired,
                                         const std::vector<std::string_view>& managers) {
  Changes changes;
  const Json* entries = codec::Find(live, {"metadata", "managedFields"});
  if (entries == nullptr || !entries->is_array()) return changes;
  for (const Json& entry : *entries) {
    const std::string manager = codec::FindString(entry, {"manager"});
    const bool counts = std::ranges::find(managers, manager) != managers.end() &&
                        codec::FindString(entry, {"subresource"}).empty();
    const Json* fields = codec::Find(entry, {"fieldsV1"});
    if (counts && fields != nullptr) FindAbandoned(*fields, &live, &desired, "", changes);
  }
  // Two managers may have written the same field.
  std::ranges::sort(changes, {}, &FieldChange::path);
  const auto again = std::ranges::unique(changes, {}, &FieldChange::path);
  changes.erase(again.begin(), again.end());
  return changes;
}

std::vector<FieldChange> MetadataChanges(const Json& live, const Json& after) {
  std::vector<FieldChange> changes;
  for (const char* member : {"labels", "annotations"}) {
    static const Json kNone = Json::object();
    const Json* before_values = codec::Find(live, {"metadata", member});
    const Json* after_values = codec::Find(after, {"metadata", member});
    const Json& before = before_values == nullptr ? kNone : *before_values;
    const Json& now = after_values == nullptr ? kNone : *after_values;
    const std::string path = fmt::format("metadata.{}", member);
    for (const auto& [key, value] : now.items()) {
      const auto found = before.find(key);
      if (found != before.end() && *found == value) continue;
      changes.push_back({.path = PathOfMember(path, key),
                         .before = found == before.end() ? std::optional<Json>() : *found,
                         .after = value});
    }
    for (const auto& [key, value] : before.items()) {
      if (now.contains(key)) continue;
      changes.push_back({.path = PathOfMember(path, key), .before = value, .after = {}});
    }
  }
  return changes;
}

}  // namespace pitcrew::plan
