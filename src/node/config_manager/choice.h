// Which configuration a node gets, and the link to it (device-plugin.md section 19).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::node::config_manager {

// What there is to choose from: the files of a folder, sorted. Folders, and names that begin with
// "..", which a mounted ConfigMap has for itself, are left out. kInvalid "NoConfigurations" for
// none.
base::Result<std::vector<std::string>> ListConfigurations(const std::filesystem::path& folder);

struct Wanted {
  std::string label;           // empty: the node has none
  std::string default_config;  // empty: none
  std::vector<std::string> fallback_strategies;
};

// The chosen file's name; empty for the empty configuration. Pure. kInvalid
// "ConfigurationMissing" names what was asked for, by whom, and what there is;
// "NothingToFallBackOn" and "UnknownFallbackStrategy" are about the strategies.
base::Result<std::string> Choose(const std::vector<std::string>& available, const Wanted& wanted);

// Points the link at `target` in one step, whatever was there. False when it did already.
base::Result<bool> PointLink(const std::filesystem::path& link,
                             const std::filesystem::path& target);

}  // namespace pitcrew::node::config_manager
