#include "node/driver_container/companion_sources.h"

#include <fmt/format.h>

#include <cctype>
#include <vector>

#include "base/strings.h"
#include "host/root.h"
#include "host/sysfs.h"

namespace pitcrew::node::driver_container {
namespace {

namespace fs = std::filesystem;

base::Error Lacking(std::string reason, std::string message) {
  return {base::Code::kUnsupported, std::move(reason), std::move(message)};
}

// "" where the name is none of these.
std::string VersionInName(std::string_view name, std::string_view module) {
  if (!name.starts_with(module)) return "";
  name.remove_prefix(module.size());
  if (name.size() < 2 || name[0] != '-') return "";
  if (std::isdigit(static_cast<unsigned char>(name[1])) == 0) return "";
  return std::string(name.substr(1));
}

// Proprietary modules taint the kernel by that.
base::Result<bool> IsProprietary(const Options& options) {
  TRY_ASSIGN(const auto taints, host::ReadAttribute(options.places.sys / "module/nvidia/taint"));
  return taints.find('P') != taints.npos;
}

}  // namespace

base::Result<CompanionSources> FindCompanionSources(const Companion& companion,
                                                    const Options& options) {
  const fs::path folder = options.places.root / "usr/src";
  const auto names = host::ListFolder(folder);
  if (!names && names.error().code != base::Code::kNotFound) return base::Fail(names.error());
  std::vector<CompanionSources> found;
  for (const auto& name : names.value_or(std::vector<std::string>())) {
    auto version = VersionInName(name, companion.module);
    if (!version.empty()) found.push_back({folder / name, std::move(version)});
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return base::Fail(Lacking(
        "ModuleSourcesMissing",
        fmt::format("this image has no sources of {} ({}/{}-<version>), from which the module of "
                    "{} is compiled. Build it with them, or with the package {}",
                    companion.module, folder.string(), companion.module, companion.of,
                    companion.package)));
  }
  std::vector<std::string> folders;
  for (const auto& each : found) folders.push_back(each.folder.string());
  return base::Fail(Lacking("ModuleSourcesUnclear",
                            fmt::format("this image has several sources of {}: {}. Leave one",
                                        companion.module, base::Join(folders, ", "))));
}

base::Result<DriverSources> FindDriverSources(const Options& options) {
  const auto version = host::ReadAttribute(options.places.sys / "module/nvidia/version");
  if (!version) return base::Fail(version.error().Within("which driver is loaded is not known"));
  const fs::path folder = options.places.run / "driver/usr/src" / ("nvidia-" + *version);
  TRY_ASSIGN(const bool proprietary, IsProprietary(options));
  // Both may be there, of a container that has compiled first one kind and then the other.
  for (const char* kind :
       {proprietary ? "kernel" : "kernel-open", proprietary ? "kernel-open" : "kernel"}) {
    const fs::path sources = folder / kind;
    TRY_ASSIGN(const bool compiled, host::Exists(sources / "Module.symvers"));
    if (!compiled) continue;
    TRY_ASSIGN(const bool nested, host::Exists(sources / "nvidia/nv-p2p.h"));
    return DriverSources{.headers = nested ? sources / "nvidia" : sources,
                         .symbols = sources / "Module.symvers"};
  }
  return base::Fail(Lacking(
      "DriverSourcesMissing",
      fmt::format("the container of driver {} has no sources that it was compiled from "
                  "({}/kernel-open or kernel, with their Module.symvers): other modules "
                  "cannot be compiled against it. Precompiled drivers and those of the host "
                  "bring none; use a driver image that compiles",
                  *version, folder.string())));
}

bool IsOfSources(std::string_view loaded_version, std::string_view version) {
  if (loaded_version.empty() || loaded_version == version) return true;
  if (!version.starts_with(loaded_version)) return false;
  const char next = version[loaded_version.size()];
  return next == '.' || next == '-';
}

}  // namespace pitcrew::node::driver_container
