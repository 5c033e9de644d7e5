#include "node/device_plugin/allocation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/strings.h"
#include "cdi/name.h"

namespace pitcrew::node::device_plugin {
namespace {

using base::Result;
using base::Status;

constexpr std::string_view kVisibleDevices = "NVIDIA_VISIBLE_DEVICES";
constexpr std::string_view kVolumeMountsFolder = "/var/run/nvidia-container-devices";
constexpr std::string_view kImexFolder = "/dev/nvidia-caps-imex-channels";

class Allocator {
 public:
  Allocator(const std::string& resource, const Settings& settings, const AllocationFacts& facts,
            std::vector<const OfferedDevice*> devices)
      : resource_(resource), settings_(settings), facts_(facts), devices_(std::move(devices)) {
    for (const auto* device : devices_) {
      auto id =
          settings.device_id_strategy == DeviceIdStrategy::kUuid ? device->uuid : device->index;
      if (std::ranges::find(ids_, id) != ids_.end()) continue;
      ids_.push_back(std::move(id));
      distinct_.push_back(device);
    }
  }

  // The order of section 13.2.
  Result<rpc::ContainerAllocation> Run(std::string_view request_id) {
    if (settings_.list_strategies.UsesCdi()) TRY(AddCdi(request_id));
    // Only replicas have a server; upstream sends the containers of all resources to one.
    if (settings_.sharing.strategy() == api::SharingStrategy::kMps &&
        std::ranges::any_of(devices_, &OfferedDevice::IsReplica)) {
      AddMps();
    }
    if (settings_.gdrcopy) answer_.envs["NVIDIA_GDRCOPY"] = "enabled";
    if (settings_.gds) answer_.envs["NVIDIA_GDS"] = "enabled";
    if (settings_.mofed) answer_.envs["NVIDIA_MOFED"] = "enabled";
    if (!settings_.list_strategies.UsesRuntime()) return std::move(answer_);
    if (settings_.list_strategies.envvar) AddEnvironment();
    if (settings_.list_strategies.volume_mounts) AddVolumeMounts();
    if (settings_.pass_device_specs) AddDeviceSpecs();
    return std::move(answer_);
  }

 private:
  Status AddCdi(std::string_view request_id) {
    std::vector<std::string> names;
    for (const auto& id : ids_) {
      TRY(cdi::ValidateDeviceName(id));
      names.push_back(fmt::format("{}/gpu={}", kCdiVendor, id));
    }
    for (const auto channel : facts_.imex_channels) {
      names.push_back(fmt::format("{}/imex-channel={}", kCdiVendor, channel));
    }
    for (const auto& mode : facts_.cdi_modes) {
      names.push_back(fmt::format("{}/{}=all", kCdiVendor, mode));
    }
    if (names.empty()) return {};
    if (settings_.list_strategies.cdi_annotations) {
      answer_.annotations[fmt::format("{}nvidia-device-plugin_{}", settings_.cdi_annotation_prefix,
                                      request_id)] = base::Join(names, ",");
    }
    if (settings_.list_strategies.cdi_cri) answer_.cdi_devices = std::move(names);
    return {};
  }

  void AddMps() {
    const auto pipe = fmt::format("/mps/{}/pipe", resource_);
    answer_.envs["CUDA_MPS_PIPE_DIRECTORY"] = pipe;
    answer_.mounts.push_back({.container_path = pipe,
                              .host_path = fmt::format("{}/{}/pipe", settings_.mps_root, resource_),
                              .read_only = false});
    answer_.mounts.push_back({.container_path = "/dev/shm",
                              .host_path = settings_.mps_root + "/shm",
                              .read_only = false});
  }

  void AddEnvironment() {
    answer_.envs[std::string(kVisibleDevices)] = base::Join(ids_, ",");
    if (!facts_.imex_channels.empty()) {
      answer_.envs["NVIDIA_IMEX_CHANNELS"] =
          fmt::format("{}", fmt::join(facts_.imex_channels, ","));
    }
  }

  void AddVolumeMounts() {
    answer_.envs[std::string(kVisibleDevices)] = kVolumeMountsFolder;
    const auto add = [this](const std::string& name) {
      answer_.mounts.push_back({.container_path = fmt::format("{}/{}", kVolumeMountsFolder, name),
                                .host_path = "/dev/null",
                                .read_only = false});
    };
    for (const auto& id : ids_) add(id);
    for (const auto channel : facts_.imex_channels) add(fmt::format("imex/{}", channel));
  }

  // Section 13.3; a path that several devices share is named once.
  void AddDeviceSpecs() {
    std::vector<std::string> paths = facts_.control_nodes;
    for (const auto* device : distinct_) {
      for (const auto& path : device->paths) {
        if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
      }
    }
    for (const auto channel : facts_.imex_channels) {
      paths.push_back(fmt::format("{}/channel{}", kImexFolder, channel));
    }
    for (const auto& path : paths) {
      // An empty root is the host's own (section 13.3).
      const std::filesystem::path root = settings_.dev_root.empty() ? "/" : settings_.dev_root;
      const auto on_host = root / path.substr(1);
      answer_.devices.push_back({.container_path = path,
                                 .host_path = on_host.lexically_normal().string(),
                                 .permissions = "rw"});
    }
  }

  const std::string& resource_;
  const Settings& settings_;
  const AllocationFacts& facts_;
  const std::vector<const OfferedDevice*> devices_;
  std::vector<std::string> ids_;  // as the strategy names them, each once
  std::vector<const OfferedDevice*> distinct_;
  rpc::ContainerAllocation answer_;
};

base::Error Refuse(const std::string& resource, std::string_view why) {
  return base::Invalid(
      "InvalidAllocation",
      fmt::format("invalid allocation request for \"{}\": invalid request: {}", resource, why));
}

}  // namespace

Result<rpc::ContainerAllocation> Allocate(const std::string& resource,
                                          const std::vector<OfferedDevice>& devices,
                                          const std::vector<std::string>& ids,
                                          const Settings& settings, const AllocationFacts& facts,
                                          std::string_view request_id) {
  std::vector<const OfferedDevice*> wanted;
  bool shared = false;
  for (const auto& id : ids) {
    const auto found = std::ranges::find(devices, id, &OfferedDevice::id);
    if (found == devices.end()) {
      return base::Fail(Refuse(resource, fmt::format("unknown device: {}", id)));
    }
    shared = shared || found->IsReplica();
    wanted.push_back(&*found);
  }
  const auto* replicated = settings.sharing.replicated();
  if (shared && ids.size() > 1 && replicated != nullptr &&
      replicated->fail_requests_greater_than_one) {
    return base::Fail(Refuse(
        resource, fmt::format("maximum request size for shared resources is 1; found {} (more "
                              "would not give the container more of a GPU)",
                              ids.size())));
  }
  return Allocator(resource, settings, facts, std::move(wanted)).Run(request_id);
}

}  // namespace pitcrew::node::device_plugin
