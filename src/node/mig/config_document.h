// The grammar that configuration files for the GPUs of a node share, whatever they give the GPUs
// (mig-manager.md section 3, vgpu-device-manager.md section 3): a version, and named lists of
// entries, each for the GPUs that its device ids and positions select.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "node/mig/device_id.h"

namespace pitcrew::node::mig {

// What one kind of file is called.
struct ConfigKind {
  std::string_view list;    // the member with the named lists: "mig-configs"
  std::string_view name;    // of one configuration, in upstream's words: "mig-config"
  std::string_view title;   // "a MIG configuration"
  std::string_view reason;  // of errors: "InvalidMigConfig"
  // "{}" is as good as an empty file; else it lacks its version.
  bool empty_mapping_is_empty = false;
};

// A value of a document with its place. Borrows all of it.
struct ConfigValue {
  const codec::Json& json;
  const codec::YamlPlaces& places;
  std::string pointer;  // JSON pointer
  const ConfigKind& kind;

  [[nodiscard]] ConfigValue Member(const std::string& name, const codec::Json& member) const;
  // kInvalid with the kind's reason: "<source>:<line>:<column>: <what>".
  [[nodiscard]] std::unexpected<base::Error> Wrong(std::string_view what) const;
};

// Nothing for a number that is no int of the tools that read these files.
std::optional<int> ReadConfigInt(const codec::Json& value);

// Device ids; none: every board.
struct DeviceFilter {
  std::vector<std::string> ids = {};
  bool is_text = false;  // a single text, not a list of one
};
base::Result<DeviceFilter> ReadDeviceFilter(const ConfigValue& value);
// Positions; nullopt: "all".
base::Result<std::optional<std::vector<int>>> ReadDevicePositions(const ConfigValue& value);

using ReadConfigEntry = std::function<base::Status(const std::string& config, const ConfigValue&)>;
// Reads all but the entries, which `read` gets in their order. The version: "v1", or "" for an
// empty document.
base::Result<std::string> ReadConfigDocument(std::string_view text, std::string_view source,
                                             const ConfigKind& kind, const ReadConfigEntry& read);

// The text of a file; "-" is standard input. kNotFound when the file is missing.
base::Result<std::string> ReadConfigText(const std::filesystem::path& file);

// Whether an entry with these device ids and positions is for such a GPU.
bool IsForGpu(const std::vector<std::string>& device_filter,
              const std::optional<std::vector<int>>& devices, const DeviceId& id, int position);

// A whole file. Entries of a configuration are in the order of the file: a later one for the same
// GPU overrides an earlier one.
template <class Entry>
struct ConfigFile {
  std::string version = {};  // "v1"; empty for an empty document
  std::map<std::string, std::vector<Entry>> configs = {};
  bool operator==(const ConfigFile&) const = default;
};

template <class Entry>
base::Result<ConfigFile<Entry>> ParseConfigFile(std::string_view text, std::string_view source,
                                                const ConfigKind& kind,
                                                base::Result<Entry> (*read)(const ConfigValue&)) {
  ConfigFile<Entry> file;
  TRY_ASSIGN(file.version, ReadConfigDocument(text, source, kind,
                                              [&](const std::string& name,
                                                  const ConfigValue& value) -> base::Status {
                                                TRY_ASSIGN(auto entry, read(value));
                                                file.configs[name].push_back(std::move(entry));
                                                return {};
                                              }));
  return file;
}

template <class Entry>
base::Result<ConfigFile<Entry>> LoadConfigFile(const std::filesystem::path& path,
                                               const ConfigKind& kind,
                                               base::Result<Entry> (*read)(const ConfigValue&)) {
  const auto text = ReadConfigText(path);
  if (!text) return base::Fail(text.error().Within("read error"));
  auto file = ParseConfigFile(*text, path == "-" ? "standard input" : path.string(), kind, read);
  if (!file) return base::Fail(file.error().Within("unmarshal error"));
  return file;
}

// The name of the configuration that is meant: without a name the only one. kInvalid "NoSuchConfig"
// names those that there are.
base::Result<std::string> SelectConfigName(const std::vector<std::string>& names,
                                           std::string_view wanted, const ConfigKind& kind);

// The configuration of that name out of a map. Borrowed.
template <class Config>
base::Result<const Config*> SelectConfigOf(const std::map<std::string, Config>& configs,
                                           std::string_view wanted, const ConfigKind& kind) {
  std::vector<std::string> names;
  for (const auto& [name, config] : configs) names.push_back(name);
  auto name = SelectConfigName(names, wanted, kind);
  if (!name) return base::Fail(name.error());
  return &configs.at(*name);
}

}  // namespace pitcrew::node::mig
