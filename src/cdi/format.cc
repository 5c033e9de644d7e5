#include "cdi/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/file.h"
#include "cdi/block_yaml.h"
#include "cdi/name.h"
#include "cdi/yaml_writer.h"
#include "codec/go_json.h"
#include "codec/json.h"
#include "codec/yaml.h"

namespace pitcrew::cdi {
namespace {

using codec::Json;
using Ordered = nlohmann::ordered_json;

// Oldest first; versions before 0.3.0 are read as 0.3.0 by upstream too.
constexpr std::array<std::string_view, 8> kVersions = {"0.3.0", "0.4.0", "0.5.0", "0.6.0",
                                                       "0.7.0", "0.8.0", "1.0.0", "1.1.0"};

std::size_t VersionRank(std::string_view version) {
  return static_cast<std::size_t>(std::ranges::find(kVersions, version) - kVersions.begin());
}

void PutText(Ordered& object, const char* name, const std::string& text) {
  if (!text.empty()) object[name] = text;
}

template <class T>
void PutOptional(Ordered& object, const char* name, const std::optional<T>& value) {
  if (value) object[name] = *value;
}

void PutNumber(Ordered& object, const char* name, std::int64_t value) {
  if (value != 0) object[name] = value;
}

template <class T>
void PutList(Ordered& object, const char* name, const std::vector<T>& list) {
  if (!list.empty()) object[name] = list;
}

// Members in the order of container-toolkit.md 2.3; what is empty is left out.
Ordered ToOrdered(const DeviceNode& node) {
  Ordered out = {{"path", node.path}};
  PutText(out, "hostPath", node.host_path);
  PutText(out, "type", node.type);
  PutNumber(out, "major", node.major);
  PutNumber(out, "minor", node.minor);
  PutOptional(out, "fileMode", node.file_mode);
  PutText(out, "permissions", node.permissions);
  PutOptional(out, "uid", node.uid);
  PutOptional(out, "gid", node.gid);
  return out;
}

Ordered ToOrdered(const NetDevice& device) {
  return {{"hostInterfaceName", device.host_name}, {"name", device.name}};
}

Ordered ToOrdered(const Hook& hook) {
  Ordered out = {{"hookName", hook.hook_name}, {"path", hook.path}};
  PutList(out, "args", hook.args);
  PutList(out, "env", hook.env);
  PutOptional(out, "timeout", hook.timeout);
  return out;
}

Ordered ToOrdered(const Mount& mount) {
  Ordered out = {{"hostPath", mount.host_path}, {"containerPath", mount.container_path}};
  PutList(out, "options", mount.options);
  PutText(out, "type", mount.type);
  return out;
}

Ordered ToOrdered(const IntelRdt& rdt) {
  Ordered out = Ordered::object();
  PutText(out, "closID", rdt.clos_id);
  PutText(out, "l3CacheSchema", rdt.l3_cache_schema);
  PutText(out, "memBwSchema", rdt.mem_bw_schema);
  PutList(out, "schemata", rdt.schemata);
  if (rdt.enable_monitoring) out["enableMonitoring"] = true;
  if (rdt.enable_cmt) out["enableCMT"] = true;
  if (rdt.enable_mbm) out["enableMBM"] = true;
  return out;
}

template <class T>
void PutObjects(Ordered& object, const char* name, const std::vector<T>& list) {
  if (list.empty()) return;
  Ordered items = Ordered::array();
  for (const auto& item : list) items.push_back(ToOrdered(item));
  object[name] = std::move(items);
}

Ordered ToOrdered(const ContainerEdits& edits) {
  Ordered out = Ordered::object();
  PutList(out, "env", edits.env);
  PutObjects(out, "deviceNodes", edits.device_nodes);
  PutObjects(out, "netDevices", edits.net_devices);
  PutObjects(out, "hooks", edits.hooks);
  PutObjects(out, "mounts", edits.mounts);
  if (edits.intel_rdt) out["intelRdt"] = ToOrdered(*edits.intel_rdt);
  PutList(out, "additionalGids", edits.additional_gids);
  return out;
}

Ordered ToOrdered(const Spec& spec, bool with_empty_edits) {
  Ordered out = {{"cdiVersion", spec.version.empty() ? MinimumVersion(spec) : spec.version},
                 {"kind", spec.kind}};
  if (!spec.annotations.empty()) out["annotations"] = spec.annotations;
  Ordered devices = Ordered::array();
  for (const auto& device : spec.devices) {
    Ordered item = {{"name", device.name}};
    if (!device.annotations.empty()) item["annotations"] = device.annotations;
    item["containerEdits"] = ToOrdered(device.edits);
    devices.push_back(std::move(item));
  }
  out["devices"] = std::move(devices);
  if (auto edits = ToOrdered(spec.edits); with_empty_edits || !edits.empty()) {
    out["containerEdits"] = std::move(edits);
  }
  return out;
}

// Takes members out of an object one by one; what is left over or of a wrong kind is an error.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) Fail("is not an object");
  }

  void Read(const char* name, std::string& to) {
    if (const Json* value = Take(name)) {
      value->is_string() ? void(to = value->get<std::string>()) : Fail(name, "is not text");
    }
  }
  void Read(const char* name, bool& to) {
    if (const Json* value = Take(name)) {
      value->is_boolean() ? void(to = value->get<bool>()) : Fail(name, "is not true or false");
    }
  }
  void Read(const char* name, std::int64_t& to) {
    if (const Json* value = Take(name)) ReadNumber(*value, name, INT64_MIN, INT64_MAX, to);
  }
  void Read(const char* name, std::optional<std::uint32_t>& to) {
    std::int64_t number = 0;
    const Json* value = Take(name);
    if (value != nullptr && ReadNumber(*value, name, 0, UINT32_MAX, number)) {
      to = static_cast<std::uint32_t>(number);
    }
  }
  void Read(const char* name, std::optional<int>& to) {
    std::int64_t number = 0;
    const Json* value = Take(name);
    if (value != nullptr && ReadNumber(*value, name, INT32_MIN, INT32_MAX, number)) {
      to = static_cast<int>(number);
    }
  }
  void Read(const char* name, std::vector<std::string>& to) {
    EachItem(name, [&](const Json& item, const std::string& where) {
      item.is_string() ? to.push_back(item.get<std::string>()) : Fail(where, "is not text");
    });
  }
  void Read(const char* name, std::vector<std::uint32_t>& to) {
    EachItem(name, [&](const Json& item, const std::string& where) {
      std::int64_t number = 0;
      if (ReadNumber(item, where, 0, UINT32_MAX, number)) {
        to.push_back(static_cast<std::uint32_t>(number));
      }
    });
  }
  void Read(const char* name, Annotations& to) {
    const Json* value = Take(name);
    if (value == nullptr) return;
    if (!value->is_object()) return Fail(name, "is not an object");
    for (const auto& [key, text] : value->items()) {
      text.is_string() ? void(to[key] = text.get<std::string>())
                       : Fail(name, "has a value not text");
    }
  }

  // Calls `read(reader of the item)` for every item of a list of objects.
  template <class Function>
  void EachObject(const char* name, Function&& read) {
    EachItem(name, [&](const Json& item, const std::string& where) {
      Reader reader(item, where_ + "." + where);
      read(reader);
      Merge(reader);
    });
  }
  template <class Function>
  void Object(const char* name, Function&& read) {
    const Json* value = Take(name);
    if (value == nullptr) return;
    Reader reader(*value, where_ + "." + name);
    read(reader);
    Merge(reader);
  }

  // The first problem, an unknown member counted in.
  base::Status Finish() {
    if (problem_.empty() && object_.is_object()) {
      for (const auto& [key, value] : object_.items()) {
        if (!taken_.contains(key)) Fail(key, "is not known to CDI");
      }
    }
    if (problem_.empty()) return {};
    return base::Fail(base::Invalid("InvalidCdiSpec", problem_));
  }

 private:
  const Json* Take(const char* name) {
    if (!object_.is_object()) return nullptr;
    taken_.insert(name);
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  bool ReadNumber(const Json& value, const std::string& name, std::int64_t lowest,
                  std::int64_t highest, std::int64_t& to) {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
    if (!fits || value.get<std::int64_t>() < lowest || value.get<std::int64_t>() > highest) {
      Fail(name, "is not a number in range");
      return false;
    }
    to = value.get<std::int64_t>();
    return true;
  }
  template <class Function>
  void EachItem(const char* name, Function&& read) {
    const Json* value = Take(name);
    if (value == nullptr) return;
    if (!value->is_array()) return Fail(name, "is not a list");
    std::size_t index = 0;
    for (const auto& item : *value) read(item, fmt::format("{}[{}]", name, index++));
  }
  void Merge(Reader& inner) {
    if (const auto status = inner.Finish(); !status && problem_.empty()) {
      problem_ = status.error().message;
    }
  }
  void Fail(std::string_view what) {
    if (problem_.empty()) problem_ = fmt::format("{} {}", where_, what);
  }
  void Fail(std::string_view member, std::string_view what) {
    if (problem_.empty()) problem_ = fmt::format("{}.{} {}", where_, member, what);
  }

  const Json& object_;
  std::string where_;
  std::set<std::string, std::less<>> taken_;
  std::string problem_;
};

void ReadNode(Reader& in, ContainerEdits& edits) {
  DeviceNode node;
  in.Read("path", node.path);
  in.Read("hostPath", node.host_path);
  in.Read("type", node.type);
  in.Read("major", node.major);
  in.Read("minor", node.minor);
  in.Read("fileMode", node.file_mode);
  in.Read("permissions", node.permissions);
  in.Read("uid", node.uid);
  in.Read("gid", node.gid);
  edits.device_nodes.push_back(std::move(node));
}

void ReadRdt(Reader& in, ContainerEdits& edits) {
  IntelRdt rdt;
  in.Read("closID", rdt.clos_id);
  in.Read("l3CacheSchema", rdt.l3_cache_schema);
  in.Read("memBwSchema", rdt.mem_bw_schema);
  in.Read("schemata", rdt.schemata);
  in.Read("enableMonitoring", rdt.enable_monitoring);
  in.Read("enableCMT", rdt.enable_cmt);
  in.Read("enableMBM", rdt.enable_mbm);
  edits.intel_rdt = std::move(rdt);
}

void ReadEdits(Reader& in, ContainerEdits& edits) {
  in.Read("env", edits.env);
  in.EachObject("deviceNodes", [&](Reader& item) { ReadNode(item, edits); });
  in.EachObject("netDevices", [&](Reader& item) {
    auto& device = edits.net_devices.emplace_back();
    item.Read("hostInterfaceName", device.host_name);
    item.Read("name", device.name);
  });
  in.EachObject("hooks", [&](Reader& item) {
    auto& hook = edits.hooks.emplace_back();
    item.Read("hookName", hook.hook_name);
    item.Read("path", hook.path);
    item.Read("args", hook.args);
    item.Read("env", hook.env);
    item.Read("timeout", hook.timeout);
  });
  in.EachObject("mounts", [&](Reader& item) {
    auto& mount = edits.mounts.emplace_back();
    item.Read("hostPath", mount.host_path);
    item.Read("containerPath", mount.container_path);
    item.Read("options", mount.options);
    item.Read("type", mount.type);
  });
  in.Object("intelRdt", [&](Reader& item) { ReadRdt(item, edits); });
  in.Read("additionalGids", edits.additional_gids);
}

base::Error InvalidSpec(std::string message) {
  return base::Invalid("InvalidCdiSpec", std::move(message));
}

base::Status ValidateEdits(const ContainerEdits& edits, const std::string& where) {
  static constexpr std::array<std::string_view, 6> kPhases = {
      "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"};
  for (const auto& env : edits.env) {
    if (env.find('=') == std::string::npos || env.front() == '=') {
      return base::Fail(InvalidSpec(fmt::format("{}: \"{}\" is not NAME=value", where, env)));
    }
  }
  for (const auto& node : edits.device_nodes) {
    if (node.path.empty()) {
      return base::Fail(InvalidSpec(fmt::format("{}: a device node has no path", where)));
    }
    if (node.permissions.find_first_not_of("rwm") != std::string::npos) {
      return base::Fail(InvalidSpec(fmt::format("{}: permissions \"{}\" of {} may have r, w and m",
                                                where, node.permissions, node.path)));
    }
    static constexpr std::array<std::string_view, 5> kTypes = {"", "b", "c", "u", "p"};
    if (std::ranges::find(kTypes, node.type) == kTypes.end()) {
      return base::Fail(InvalidSpec(
          fmt::format("{}: type \"{}\" of {} is none of b, c, u, p", where, node.type, node.path)));
    }
  }
  for (const auto& hook : edits.hooks) {
    if (std::ranges::find(kPhases, hook.hook_name) == kPhases.end() || hook.path.empty()) {
      return base::Fail(InvalidSpec(fmt::format("{}: hook \"{}\" with path \"{}\" is not valid",
                                                where, hook.hook_name, hook.path)));
    }
  }
  for (const auto& mount : edits.mounts) {
    if (mount.host_path.empty() || mount.container_path.empty()) {
      return base::Fail(
          InvalidSpec(fmt::format("{}: a mount needs hostPath and containerPath", where)));
    }
  }
  return {};
}

bool AnyEdits(const Spec& spec, auto&& predicate) {
  return predicate(spec.edits) || std::ranges::any_of(spec.devices, [&](const Device& device) {
           return predicate(device.edits);
         });
}

bool NeedsVersion11(const ContainerEdits& edits) {
  return !edits.net_devices.empty() || (edits.intel_rdt && (!edits.intel_rdt->schemata.empty() ||
                                                            edits.intel_rdt->enable_monitoring));
}

}  // namespace

std::string MinimumVersion(const Spec& spec) {
  if (AnyEdits(spec, NeedsVersion11)) return "1.1.0";
  if (AnyEdits(spec, [](const ContainerEdits& edits) {
        return !edits.additional_gids.empty() || edits.intel_rdt.has_value();
      })) {
    return "0.7.0";
  }
  const auto slash = spec.kind.find('/');
  const bool dotted = slash != std::string::npos && spec.kind.find('.', slash) != std::string::npos;
  if (dotted || !spec.annotations.empty() ||
      std::ranges::any_of(spec.devices, [](const Device& d) { return !d.annotations.empty(); })) {
    return "0.6.0";
  }
  const bool digit_name = std::ranges::any_of(spec.devices, [](const Device& device) {
    return !device.name.empty() && device.name.front() >= '0' && device.name.front() <= '9';
  });
  const auto has_host_path = [](const ContainerEdits& edits) {
    return std::ranges::any_of(edits.device_nodes,
                               [](const DeviceNode& node) { return !node.host_path.empty(); });
  };
  if (digit_name || AnyEdits(spec, has_host_path)) return "0.5.0";
  const auto has_mount_type = [](const ContainerEdits& edits) {
    return std::ranges::any_of(edits.mounts,
                               [](const Mount& mount) { return !mount.type.empty(); });
  };
  return AnyEdits(spec, has_mount_type) ? "0.4.0" : "0.3.0";
}

base::Status Validate(const Spec& spec) {
  const std::string minimum = MinimumVersion(spec);
  if (!spec.version.empty()) {
    if (VersionRank(spec.version) == kVersions.size() && spec.version != "0.2.0" &&
        spec.version != "0.1.0") {
      return base::Fail(InvalidSpec(fmt::format("cdiVersion \"{}\" is not known", spec.version)));
    }
    if (VersionRank(spec.version) < VersionRank(minimum)) {
      return base::Fail(InvalidSpec(
          fmt::format("cdiVersion {} is too low: the content needs {}", spec.version, minimum)));
    }
  }
  TRY(ValidateKind(spec.kind));
  TRY(ValidateEdits(spec.edits, "containerEdits"));
  if (spec.devices.empty()) return base::Fail(InvalidSpec(spec.kind + " has no device"));
  std::set<std::string> names;
  for (const auto& device : spec.devices) {
    TRY(ValidateDeviceName(device.name));
    if (!names.insert(device.name).second) {
      return base::Fail(
          InvalidSpec(fmt::format("device \"{}\" stands twice in {}", device.name, spec.kind)));
    }
    if (device.edits == ContainerEdits{}) {
      return base::Fail(
          InvalidSpec(fmt::format("device \"{}\" has empty device edits", device.name)));
    }
    TRY(ValidateEdits(device.edits, "device " + device.name));
  }
  return {};
}

std::string ToYamlText(const Spec& spec) { return "---\n" + WriteGoYaml(ToOrdered(spec, false)); }

std::string ToJsonText(const Spec& spec) {
  return codec::EscapeAsGo(
      ToOrdered(spec, true).dump(-1, ' ', false, Ordered::error_handler_t::replace));
}

base::Result<Spec> ParseSpec(std::string_view text, std::string_view source) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  if (!is_json) {
    if (auto plain = ReadBlockYaml(text)) return *std::move(plain);
  }
  TRY_ASSIGN(const Json json,
             is_json ? codec::ParseJson(text, source) : codec::ParseYaml(text, source));
  Spec spec;
  Reader in(json, std::string(source) + ": spec");
  in.Read("cdiVersion", spec.version);
  in.Read("kind", spec.kind);
  in.Read("annotations", spec.annotations);
  in.EachObject("devices", [&](Reader& item) {
    auto& device = spec.devices.emplace_back();
    item.Read("name", device.name);
    item.Read("annotations", device.annotations);
    item.Object("containerEdits", [&](Reader& edits) { ReadEdits(edits, device.edits); });
  });
  in.Object("containerEdits", [&](Reader& edits) { ReadEdits(edits, spec.edits); });
  TRY(in.Finish());
  return spec;
}

base::Status WriteSpecFile(const std::filesystem::path& path, const Spec& spec) {
  if (const auto valid = Validate(spec); !valid) {
    return base::Fail(valid.error().Within(path.string()));
  }
  return base::WriteFileAtomically(
      path, path.extension() == ".json" ? ToJsonText(spec) : ToYamlText(spec), 0644);
}

base::Result<bool> UpdateSpecFile(const std::filesystem::path& path, Spec spec) {
  if (spec.version.empty()) spec.version = MinimumVersion(spec);
  const auto text = path.extension() == ".json" ? ToJsonText(spec) : ToYamlText(spec);
  if (const auto present = base::ReadFile(path); present && *present == text) return false;
  TRY(WriteSpecFile(path, spec));
  return true;
}

std::string SpecFileStem(std::string_view kind) {
  std::string stem(kind);
  std::ranges::replace(stem, '/', '-');
  return stem;
}

}  // namespace pitcrew::cdi
