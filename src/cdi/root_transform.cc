#include "cdi/root_transform.h"

namespace pitcrew::cdi {
namespace {

constexpr std::string_view kBetween = "::";

// Hooks of these kinds run with the paths of the container.
bool SeesContainer(const Hook& hook) {
  return hook.hook_name == "createContainer" || hook.hook_name == "startContainer";
}

class Transform {
 public:
  Transform(std::string_view from, std::string_view to, PathsOf paths)
      : from_(from), to_(to), paths_(paths) {}

  void Apply(ContainerEdits& edits) const {
    for (auto& node : edits.device_nodes) Apply(node);
    for (auto& mount : edits.mounts) {
      Change(paths_ == PathsOf::kHost ? mount.host_path : mount.container_path);
    }
    for (auto& hook : edits.hooks) Apply(hook);
  }

 private:
  void Apply(DeviceNode& node) const {
    if (paths_ == PathsOf::kContainer) {
      Change(node.path);
      return;
    }
    if (node.host_path.empty()) node.host_path = node.path;
    Change(node.host_path);
  }

  void Apply(Hook& hook) const {
    // The program of a startContainer hook is the container's own.
    const bool program_of_container = hook.hook_name == "startContainer";
    if (program_of_container == (paths_ == PathsOf::kContainer)) Change(hook.path);
    if (SeesContainer(hook) != (paths_ == PathsOf::kContainer)) return;
    for (auto& argument : hook.args) {
      const auto between = argument.find(kBetween);
      if (between == std::string::npos) {
        Change(argument);
        continue;
      }
      argument = TransformPath(argument.substr(0, between), from_, to_) + std::string(kBetween) +
                 TransformPath(argument.substr(between + kBetween.size()), from_, to_);
    }
  }

  void Change(std::string& path) const { path = TransformPath(path, from_, to_); }

  const std::string_view from_;
  const std::string_view to_;
  const PathsOf paths_;
};

std::string_view WithoutSlash(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return folder;
}

}  // namespace

std::string TransformPath(std::string_view path, std::string_view from, std::string_view to) {
  from = WithoutSlash(from);
  if (!path.starts_with(from)) return std::string(path);
  const auto rest = path.substr(from.size());
  if (!rest.empty() && !rest.starts_with('/')) return std::string(path);
  if (from.empty() && rest.empty()) return std::string(path);
  std::string changed = std::string(WithoutSlash(to)) + std::string(rest);
  if (changed.empty()) changed = "/";
  return changed;
}

void TransformRoot(Spec& spec, std::string_view from, std::string_view to, PathsOf paths) {
  if (from == to) return;
  const Transform transform(from, to, paths);
  transform.Apply(spec.edits);
  for (auto& device : spec.devices) transform.Apply(device.edits);
}

}  // namespace pitcrew::cdi
