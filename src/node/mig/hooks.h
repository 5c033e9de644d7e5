// The hooks file v1 of apply and restore: programs to run before and after changes (mig-manager.md
// section 4).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::node::mig {

inline constexpr std::string_view kApplyStart = "apply-start";
inline constexpr std::string_view kPreApplyMode = "pre-apply-mode";
inline constexpr std::string_view kPreApplyConfig = "pre-apply-config";
inline constexpr std::string_view kApplyExit = "apply-exit";

struct Hook {
  std::string command = {};  // a path, or a name that is looked up in $PATH
  std::vector<std::string> arguments = {};
  std::map<std::string, std::string> environment = {};
  std::string working_folder = {};  // empty: that of this process
  bool operator==(const Hook&) const = default;
};

struct Hooks {
  std::string version = {};
  std::map<std::string, std::vector<Hook>> by_name = {};
  bool operator==(const Hooks&) const = default;
};

// kInvalid "InvalidHooks" with place and member. As upstream, unknown members are left out of
// account and the version is not checked.
base::Result<Hooks> ParseHooks(std::string_view text, std::string_view source);
base::Result<Hooks> LoadHooks(const std::filesystem::path& file);
std::string ToYamlText(const Hooks& hooks);

// Runs those of one name in order until one fails: "error running <name> hook: ...". No hooks of
// the name is success. A hook's variables are its own, then `environment`, which wins, and a PATH
// of the standard folders. Its output is shown with `show_output`, else only the end of what it
// wrote to standard error, in the error.
base::Status RunHooks(const Hooks& hooks, std::string_view name,
                      const std::map<std::string, std::string>& environment, bool show_output);

}  // namespace pitcrew::node::mig
