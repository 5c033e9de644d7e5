// Modules that belong together, as those of a driver: who holds them from outside, and taking all
// of them out of the kernel or none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::kernel_modules {

// A set is a list of these in which each stands before those that it needs.
struct Member {
  std::string_view name;  // as the kernel writes it: nvidia_uvm
  // The member whose symbols it may look up when it is loaded (symbol_get). Each counts as a use
  // there, and the kernel does not say whose. "": none. Where it stands among that one's holders it
  // is linked to it, and looks up none: nvidia_fs does so since 2.17.5.
  std::string_view looks_up = {};
};
using Members = std::span<const Member>;

struct LoadedModule {
  std::uint32_t references = 0;
  std::vector<std::string> holders{};  // modules

  bool operator==(const LoadedModule&) const = default;
};
using LoadedModules = std::map<std::string, LoadedModule, std::less<>>;  // by name

// Those that are loaded. An error where one cannot be read: unknown is not absent.
base::Result<LoadedModules> ReadLoaded(Members members, const std::filesystem::path& sys = "/sys");

// What holds loaded members from outside, as the kernel counts it: "nvidia is held by efa",
// "nvidia_uvm has 2 uses by programs". Uses that a loaded member may have made without the kernel
// saying so are left out.
std::vector<std::string> UsesFromOutside(Members members, const LoadedModules& loaded);

struct LoadSteps {
  std::function<base::Status(const std::string& module)> unload;
  std::function<base::Status(const std::string& module)> load;  // again, as it was
};
// Takes all of them out, in their order. Where one stays, those that have gone are loaded again,
// and the error is that one's with what became of them.
base::Status TakeOut(Members members, const LoadedModules& loaded, const LoadSteps& steps);

}  // namespace pitcrew::kernel_modules
