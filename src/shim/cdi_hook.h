// nvidia-cdi-hook: what CDI specifications run when a container is created, inside the container's
// namespaces and before its root becomes "/" (container-toolkit.md 9). Nothing of the container is
// executed, and no path is followed out of its root.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "shim/container_root.h"

namespace pitcrew::shim {

// A hook name that this version does not know is a warning and success, so that newer
// specifications work; an unknown flag of a known hook is an error.
int RunCdiHook(int argc, char** argv);

// Root folder of the container on the host: member "root" of the state if present, else root.path
// of the bundle's config.json. Relative paths start at the bundle (container-toolkit.md 9).
base::Result<std::filesystem::path> ContainerRootPath(std::string_view state);

// Flags of one hook, "--name value" or "--name=value", with one or two dashes.
class HookFlags {
 public:
  // `known` are names with a value, `switches` those without. kInvalid names what is not known.
  static base::Result<HookFlags> Parse(const std::vector<std::string>& arguments,
                                       const std::vector<std::string_view>& known,
                                       const std::vector<std::string_view>& switches = {});
  [[nodiscard]] std::vector<std::string> All(std::string_view name) const;
  [[nodiscard]] std::string Last(std::string_view name, std::string_view fallback = "") const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

// The hooks. Each gets its arguments after the name.
base::Status CreateSymlinks(const ContainerRoot& root, const std::vector<std::string>& links);
base::Status ChangeModes(const ContainerRoot& root, mode_t mode,
                         const std::vector<std::string>& paths);
base::Status DisableDeviceNodeModification(const ContainerRoot& root);
base::Status UpdateApplicationProfile(const ContainerRoot& root);

// The kernel's parameter text with "ModifyDeviceFiles: 0"; empty when nothing is to be changed
// (container-toolkit.md 9.3).
std::string WithoutDeviceModification(std::string_view params);
// Text of the profile for GPUs with these minors (9.4).
std::string ApplicationProfile(const std::vector<unsigned>& minors);

}  // namespace pitcrew::shim
