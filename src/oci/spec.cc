#include "oci/spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "codec/go_json.h"

namespace pitcrew::oci {
namespace {

using codec::Json;

enum class Kind { kObject, kArray, kText, kNumber, kTextList };

bool IsOfKind(const Json& value, Kind kind) {
  switch (kind) {
    case Kind::kObject:
      return value.is_object();
    case Kind::kArray:
      return value.is_array();
    case Kind::kText:
      return value.is_string();
    case Kind::kNumber:
      return value.is_number_integer();
    case Kind::kTextList:
      return value.is_array() &&
             std::ranges::all_of(value, [](const Json& item) { return item.is_string(); });
  }
  return false;
}

// A member that is missing or null is fine everywhere; one of another kind would be edited wrongly.
base::Status Check(const Json& json, std::initializer_list<std::string_view> path, Kind kind,
                   std::string_view source) {
  const Json* value = codec::Find(json, path);
  if (value == nullptr || value->is_null() || IsOfKind(*value, kind)) return {};
  std::string name;
  for (const auto part : path) name += (name.empty() ? "" : ".") + std::string(part);
  return base::Fail(
      base::Invalid("InvalidOciSpec",
                    fmt::format("{}: {} has a kind that the OCI specification does not give it: {}",
                                source, name, value->type_name())));
}

base::Status CheckItems(const Json& json, std::initializer_list<std::string_view> path,
                        std::string_view source) {
  TRY(Check(json, path, Kind::kArray, source));
  const Json* list = codec::Find(json, path);
  if (list == nullptr || list->is_null()) return {};
  for (const auto& item : *list) {
    if (!item.is_object()) {
      return base::Fail(
          base::Invalid("InvalidOciSpec",
                        fmt::format("{}: an entry of {} is not an object", source, *path.begin())));
    }
  }
  return {};
}

// The member, made an empty object or array when it is missing or null.
Json& Member(Json& parent, std::string_view name, Json empty) {
  Json& member = parent[std::string(name)];
  if (member.is_null()) member = std::move(empty);
  return member;
}

std::string Text(const Json& object, std::string_view name) {
  return codec::FindString(object, {name});
}

std::vector<std::string> TextList(const Json* list) {
  std::vector<std::string> items;
  if (list == nullptr || !list->is_array()) return items;
  for (const auto& item : *list) {
    if (item.is_string()) items.push_back(item.get<std::string>());
  }
  return items;
}

std::optional<std::uint32_t> Number(const Json* value) {
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  const auto number = value->get<std::int64_t>();
  if (number < 0 || number > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

std::string_view NameOf(std::string_view entry) { return entry.substr(0, entry.find('=')); }

// How many folders lie above the destination: "/" 0, "/dev" 1, "/dev/shm/" 2.
std::ptrdiff_t Depth(const std::string& destination) {
  std::ptrdiff_t depth = 0;
  bool in_part = false;
  for (const char c : destination) {
    if (c != '/' && !in_part) ++depth;
    in_part = c != '/';
  }
  return depth;
}

Json ToJson(const Mount& mount) {
  Json json = {{"destination", mount.destination}};
  if (!mount.type.empty()) json["type"] = mount.type;
  if (!mount.source.empty()) json["source"] = mount.source;
  if (!mount.options.empty()) json["options"] = mount.options;
  return json;
}

Json ToJson(const Device& device) {
  Json json = {{"path", device.path},
               {"type", device.type},
               {"major", device.major},
               {"minor", device.minor}};
  if (device.file_mode) json["fileMode"] = *device.file_mode;
  if (device.uid) json["uid"] = *device.uid;
  if (device.gid) json["gid"] = *device.gid;
  return json;
}

bool Has(const Json& entry, const char* name, const std::string& value) {
  return entry.is_object() && Text(entry, name) == value;
}

}  // namespace

base::Result<Spec> Spec::Parse(std::string_view text, std::string_view source) {
  TRY_ASSIGN(Json json, codec::ParseJson(text, source));
  if (!json.is_object()) {
    return base::Fail(
        base::Invalid("InvalidOciSpec", fmt::format("{}: an object is expected", source)));
  }
  TRY(Check(json, {"process"}, Kind::kObject, source));
  TRY(Check(json, {"process", "env"}, Kind::kTextList, source));
  TRY(Check(json, {"process", "user"}, Kind::kObject, source));
  TRY(Check(json, {"process", "user", "additionalGids"}, Kind::kArray, source));
  TRY(Check(json, {"root"}, Kind::kObject, source));
  TRY(Check(json, {"root", "path"}, Kind::kText, source));
  TRY(Check(json, {"annotations"}, Kind::kObject, source));
  TRY(Check(json, {"linux"}, Kind::kObject, source));
  TRY(Check(json, {"linux", "resources"}, Kind::kObject, source));
  TRY(CheckItems(json, {"linux", "devices"}, source));
  TRY(CheckItems(json, {"linux", "resources", "devices"}, source));
  TRY(Check(json, {"linux", "netDevices"}, Kind::kObject, source));
  TRY(CheckItems(json, {"mounts"}, source));
  TRY(Check(json, {"hooks"}, Kind::kObject, source));
  for (const auto phase : {"prestart", "createRuntime", "createContainer", "startContainer",
                           "poststart", "poststop"}) {
    TRY(CheckItems(json, {"hooks", phase}, source));
  }
  return Spec(std::move(json));
}

std::string Spec::ToText() const { return codec::EscapeAsGo(codec::ToJsonText(json_)) + "\n"; }

std::vector<std::string> Spec::env() const {
  return TextList(codec::Find(json_, {"process", "env"}));
}

std::optional<std::string> Spec::FindEnv(std::string_view name) const {
  std::optional<std::string> value;
  for (const auto& entry : env()) {
    // The last one counts, as for runc, which drops the earlier ones.
    if (NameOf(entry) == name && entry.size() > name.size()) value = entry.substr(name.size() + 1);
  }
  return value;
}

std::vector<std::pair<std::string, std::string>> Spec::annotations() const {
  std::vector<std::pair<std::string, std::string>> all;
  const Json* object = codec::Find(json_, {"annotations"});
  if (object == nullptr || !object->is_object()) return all;
  for (const auto& [key, value] : object->items()) {
    if (value.is_string()) all.emplace_back(key, value.get<std::string>());
  }
  return all;
}

std::vector<Mount> Spec::mounts() const {
  std::vector<Mount> all;
  const Json* list = codec::Find(json_, {"mounts"});
  if (list == nullptr || !list->is_array()) return all;
  for (const auto& entry : *list) {
    all.push_back({Text(entry, "destination"), Text(entry, "type"), Text(entry, "source"),
                   TextList(codec::Find(entry, {"options"}))});
  }
  return all;
}

std::string Spec::root_path() const { return codec::FindString(json_, {"root", "path"}); }

bool Spec::HasBoundingCapability(std::string_view capability) const {
  // Before version 1.0.0-rc5 of the OCI specification, capabilities was a plain list.
  const Json* capabilities = codec::Find(json_, {"process", "capabilities"});
  if (capabilities == nullptr) return false;
  const auto held =
      TextList(capabilities->is_array() ? capabilities : codec::Find(*capabilities, {"bounding"}));
  return std::ranges::find(held, capability) != held.end();
}

void Spec::SetEnv(std::string_view entry) {
  Json& list = Member(Member(json_, "process", Json::object()), "env", Json::array());
  auto& entries = list.get_ref<Json::array_t&>();
  const auto has_name = [&](const Json& existing) {
    return NameOf(existing.get_ref<const std::string&>()) == NameOf(entry);
  };
  const auto first = std::ranges::find_if(entries, has_name);
  if (first == entries.end()) {
    entries.emplace_back(std::string(entry));
    return;
  }
  *first = std::string(entry);
  // Of several the last one counts, for a runtime.
  entries.erase(std::remove_if(first + 1, entries.end(), has_name), entries.end());
}

void Spec::SetDevice(const Device& device, std::string_view access) {
  Json& linux_part = Member(json_, "linux", Json::object());
  Json& list = Member(linux_part, "devices", Json::array());
  std::erase_if(list.get_ref<Json::array_t&>(),
                [&](const Json& existing) { return Has(existing, "path", device.path); });
  list.push_back(ToJson(device));
  if (access.empty() || (device.type != "c" && device.type != "b")) return;
  Member(Member(linux_part, "resources", Json::object()), "devices", Json::array())
      .push_back({{"allow", true},
                  {"type", device.type},
                  {"major", device.major},
                  {"minor", device.minor},
                  {"access", std::string(access)}});
}

void Spec::SetMount(const Mount& mount) {
  Json& list = Member(json_, "mounts", Json::array());
  const auto existing = std::ranges::find_if(
      list, [&](const Json& entry) { return Has(entry, "destination", mount.destination); });
  if (existing != list.end()) list.erase(existing);
  // Last, so that nothing of the same destination is mounted over it.
  list.push_back(ToJson(mount));
}

void Spec::SortMounts() {
  const auto list = json_.find("mounts");
  if (list == json_.end() || !list->is_array()) return;
  auto items = list->get<std::vector<Json>>();
  std::ranges::stable_sort(items, {},
                           [](const Json& mount) { return Depth(Text(mount, "destination")); });
  *list = std::move(items);
}

void Spec::AddHook(std::string_view phase, const Hook& hook) {
  Json json = {{"path", hook.path}};
  if (!hook.args.empty()) json["args"] = hook.args;
  if (!hook.env.empty()) json["env"] = hook.env;
  if (hook.timeout) json["timeout"] = *hook.timeout;
  Member(Member(json_, "hooks", Json::object()), phase, Json::array()).push_back(std::move(json));
}

std::size_t Spec::RemoveHooks(std::string_view phase,
                              const std::function<bool(const std::string&)>& unwanted) {
  if (codec::Find(json_, {"hooks", phase}) == nullptr) return 0;
  Json& hooks = json_["hooks"];
  Json& list = hooks[std::string(phase)];
  if (!list.is_array()) return 0;
  Json kept = Json::array();
  for (auto& hook : list) {
    if (!unwanted(Text(hook, "path"))) kept.push_back(hook);
  }
  const std::size_t removed = list.size() - kept.size();
  if (removed == 0) return 0;
  if (kept.empty()) {
    hooks.erase(std::string(phase));
  } else {
    list = std::move(kept);
  }
  return removed;
}

void Spec::AddAdditionalGids(const std::vector<std::uint32_t>& gids) {
  for (const auto gid : gids) {
    if (gid == 0) continue;
    Json& user = Member(Member(json_, "process", Json::object()), "user", Json::object());
    Json& list = Member(user, "additionalGids", Json::array());
    if (std::ranges::find(list, Json(gid)) == list.end()) list.push_back(gid);
  }
}

std::optional<std::uint32_t> Spec::process_uid() const {
  return Number(codec::Find(json_, {"process", "user", "uid"}));
}

std::optional<std::uint32_t> Spec::process_gid() const {
  return Number(codec::Find(json_, {"process", "user", "gid"}));
}

void Spec::SetNetDevice(const std::string& host_name, const std::string& name) {
  Json& devices = Member(Member(json_, "linux", Json::object()), "netDevices", Json::object());
  devices[host_name] = {{"name", name}};
}

void Spec::SetIntelRdt(codec::Json value) {
  Member(json_, "linux", Json::object())["intelRdt"] = std::move(value);
}

}  // namespace pitcrew::oci
