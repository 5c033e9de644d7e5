#include "node/config_manager/choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "host/root.h"

namespace pitcrew::node::config_manager {
namespace {

using base::Result;

Result<std::string> Existing(const std::vector<std::string>& available, const std::string& name,
                             std::string_view asked_by) {
  if (std::ranges::find(available, name) != available.end()) return name;
  return base::Fail(base::Invalid(
      "ConfigurationMissing", fmt::format("{} asks for configuration \"{}\", and there is only {}",
                                          asked_by, name, fmt::join(available, ", "))));
}

}  // namespace

Result<std::vector<std::string>> ListConfigurations(const std::filesystem::path& folder) {
  TRY_ASSIGN(auto names, host::ListFolder(folder));
  std::erase_if(names, [&](const std::string& name) {
    return name.starts_with("..") || host::IsDirectory(folder / name).value_or(false);
  });
  if (names.empty()) {
    return base::Fail(base::Invalid(
        "NoConfigurations",
        fmt::format("{} has no configuration: is the ConfigMap empty?", folder.string())));
  }
  return names;
}

Result<std::string> Choose(const std::vector<std::string>& available, const Wanted& wanted) {
  if (!wanted.label.empty()) return Existing(available, wanted.label, "the node's label");
  if (!wanted.default_config.empty()) {
    return Existing(available, wanted.default_config, "the default");
  }
  for (const auto& strategy : wanted.fallback_strategies) {
    if (strategy == "named") {
      const auto named = std::ranges::find(available, "default");
      if (named != available.end()) return *named;
    } else if (strategy == "single") {
      if (available.size() == 1) return available.front();
    } else if (strategy == "empty") {
      return std::string();
    } else {
      return base::Fail(base::Invalid(
          "UnknownFallbackStrategy",
          fmt::format("fallback strategy \"{}\"; it must be named, single or empty", strategy)));
    }
  }
  return base::Fail(base::Invalid(
      "NothingToFallBackOn",
      fmt::format("the node has no label, there is no default, and no fallback strategy ({}) "
                  "chooses one of {}",
                  fmt::join(wanted.fallback_strategies, ", "), fmt::join(available, ", "))));
}

Result<bool> PointLink(const std::filesystem::path& link, const std::filesystem::path& target) {
  const auto present = host::ReadLink(link);
  std::error_code error;
  if ((present && *present == target) || std::filesystem::equivalent(link, target, error)) {
    return false;
  }
  const auto fresh = link.parent_path() / fmt::format(".{}.new", link.filename().string());
  ::unlink(fresh.c_str());
  if (::symlink(target.c_str(), fresh.c_str()) != 0 || ::rename(fresh.c_str(), link.c_str()) != 0) {
    const int saved = errno;
    ::unlink(fresh.c_str());
    return base::Fail(base::FromErrno(saved, fmt::format("link {}", link.string())));
  }
  return true;
}

}  // namespace pitcrew::node::config_manager
