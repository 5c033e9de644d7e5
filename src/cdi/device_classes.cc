#include "cdi/device_classes.h"

#include <fmt/format.h>

#include <algorithm>

namespace pitcrew::cdi {

std::span<const DeviceClass> DeviceClasses() {
  static const std::vector<DeviceClass> kClasses = {
      {.name = "gdrcopy", .nodes = {{"/dev", "gdrdrv"}}, .mounts = {}},
      {.name = "gds",
       .nodes = {{"/dev", "nvidia-fs"}},
       .mounts = {"/run/udev", "/etc/cufile.json"}},
      {.name = "mofed",
       .nodes = {{"/dev/infiniband", "uverbs"}, {"/dev/infiniband", "rdma_cm"}},
       .mounts = {}},
      {.name = "nvswitch", .nodes = {{"/dev", "nvidia-nvswitch"}}, .mounts = {}},
  };
  return kClasses;
}

const DeviceClass* FindDeviceClass(std::string_view name) {
  const auto classes = DeviceClasses();
  const auto found = std::ranges::find(classes, name, &DeviceClass::name);
  return found == classes.end() ? nullptr : &*found;
}

std::vector<std::string> ClassMountOptions() {
  return {"ro", "nosuid", "nodev", "rbind", "rprivate"};
}

std::string ImexChannelPath(std::int64_t channel) {
  return fmt::format("/dev/nvidia-caps-imex-channels/channel{}", channel);
}

}  // namespace pitcrew::cdi
