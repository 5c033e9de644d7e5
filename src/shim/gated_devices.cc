#include "shim/gated_devices.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "base/strings.h"
#include "cdi/device_classes.h"
#include "shim/requests.h"

namespace pitcrew::shim {
namespace {

namespace fs = std::filesystem;

struct Gate {
  const char* variable;
  const char* device_class;
};
constexpr std::array kGates = {Gate{"NVIDIA_GDS", "gds"}, Gate{"NVIDIA_MOFED", "mofed"},
                               Gate{"NVIDIA_GDRCOPY", "gdrcopy"},
                               Gate{"NVIDIA_NVSWITCH", "nvswitch"}};
constexpr std::string_view kImexMounts = "/var/run/nvidia-container-devices/imex/";

std::vector<std::string> ImexMounts(const oci::Spec& spec) {
  std::vector<std::string> channels;
  for (const auto& mount : spec.mounts()) {
    if (mount.source == "/dev/null" && mount.destination.starts_with(kImexMounts)) {
      channels.push_back(mount.destination.substr(kImexMounts.size()));
    }
  }
  return channels;
}

base::Result<std::vector<std::int64_t>> ParseChannels(const std::vector<std::string>& names) {
  std::vector<std::int64_t> channels;
  if (names.size() == 1 && names.front() == "all") return channels;
  for (const auto& name : names) {
    if (name.empty()) continue;
    constexpr std::string_view kWord = "channel";
    const auto number = base::ParseUnsigned(
        name.starts_with(kWord) ? std::string_view(name).substr(kWord.size()) : name);
    if (!number || *number >= static_cast<std::uint64_t>(cdi::kMostImexChannels)) {
      return base::Fail(base::Invalid(
          "InvalidImexChannel",
          fmt::format("NVIDIA_IMEX_CHANNELS: \"{}\" is no channel; they are numbers below {}", name,
                      cdi::kMostImexChannels)));
    }
    const auto channel = static_cast<std::int64_t>(*number);
    if (std::ranges::find(channels, channel) == channels.end()) channels.push_back(channel);
  }
  return channels;
}

bool IsCharacterDevice(const fs::path& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode);
}

void AddNode(const fs::path& root, const std::string& inside, cdi::ContainerEdits& edits) {
  cdi::DeviceNode node;
  node.path = inside;
  node.host_path = (root / inside.substr(1)).string();
  edits.device_nodes.push_back(std::move(node));
}

base::Status AddNodes(const cdi::NodePattern& pattern, const fs::path& root,
                      cdi::ContainerEdits& edits) {
  std::error_code error;
  const fs::path folder = root / pattern.folder.substr(1);
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  if (error && error.value() != ENOENT) {
    return base::Fail(base::FromErrno(error.value(), "list " + folder.string()));
  }
  std::ranges::sort(names);
  for (const auto& name : names) {
    if (name.starts_with(pattern.prefix) && IsCharacterDevice(folder / name)) {
      AddNode(root, fmt::format("{}/{}", pattern.folder, name), edits);
    }
  }
  return {};
}

base::Status AddClass(const cdi::DeviceClass& device_class, const fs::path& root,
                      std::vector<std::string>& warnings, cdi::ContainerEdits& edits) {
  const auto before = edits.device_nodes.size();
  for (const auto& pattern : device_class.nodes) TRY(AddNodes(pattern, root, edits));
  if (edits.device_nodes.size() == before) {
    warnings.push_back(fmt::format("the container asks for {}, and this node has no device of it",
                                   device_class.name));
    return {};
  }
  for (const auto path : device_class.mounts) {
    const fs::path source = root / path.substr(1);
    std::error_code error;
    if (!fs::exists(source, error)) continue;
    edits.mounts.push_back({.host_path = source.string(),
                            .container_path = std::string(path),
                            .options = cdi::ClassMountOptions(),
                            .type = ""});
  }
  return {};
}

}  // namespace

base::Result<GatedRequests> FindGatedRequests(const oci::Spec& spec, const Config& config,
                                              Mode mode) {
  GatedRequests requests;
  const bool accepts_env =
      config.accept_env_when_unprivileged || spec.HasBoundingCapability("CAP_SYS_ADMIN");
  std::vector<std::string> asked;
  for (const auto& [variable, device_class] : kGates) {
    if (spec.FindEnv(variable) != "enabled") continue;
    asked.emplace_back(variable);
    if (accepts_env) requests.classes.emplace_back(device_class);
  }
  if (!config.ignore_imex_channels && mode != Mode::kCsv) {
    std::vector<std::string> channels =
        config.accept_devices_as_mounts ? ImexMounts(spec) : std::vector<std::string>();
    if (const auto value = spec.FindEnv("NVIDIA_IMEX_CHANNELS"); channels.empty() && value) {
      auto named = RequestedValues({*value});
      std::erase(named, "");
      if (!named.empty()) asked.emplace_back("NVIDIA_IMEX_CHANNELS");
      if (accepts_env) channels = named;
    }
    TRY_ASSIGN(requests.imex_channels, ParseChannels(channels));
  }
  if (!accepts_env && !asked.empty()) {
    requests.warnings.push_back(
        fmt::format("{} is passed over: the container is not privileged and "
                    "accept-nvidia-visible-devices-envvar-when-unprivileged is false",
                    base::Join(asked, ", ")));
  }
  return requests;
}

base::Result<cdi::ContainerEdits> GatedEdits(GatedRequests& requests, const fs::path& root) {
  cdi::ContainerEdits edits;
  for (const auto& name : requests.classes) {
    if (const auto* device_class = cdi::FindDeviceClass(name)) {
      TRY(AddClass(*device_class, root, requests.warnings, edits));
    }
  }
  for (const auto channel : requests.imex_channels) {
    const auto path = cdi::ImexChannelPath(channel);
    if (!IsCharacterDevice(root / path.substr(1))) {
      return base::Fail(base::NotFound(
          "NoImexChannel",
          fmt::format("the container asks for IMEX channel {}, and {} is not on this node", channel,
                      path)));
    }
    AddNode(root, path, edits);
  }
  return edits;
}

}  // namespace pitcrew::shim
