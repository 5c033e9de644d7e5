#include "node/smi/snapshot.h"

#include <algorithm>

#include "base/strings.h"

namespace pitcrew::node::smi {

base::Result<Snapshot> ReadSnapshot(nvml::Library& library) {
  TRY_ASSIGN(auto inventory, library.ReadInventory());
  Snapshot snapshot;
  snapshot.driver_version = inventory.driver_version;
  snapshot.cuda_version =
      inventory.cuda_version == 0
          ? "N/A"
          : std::to_string(inventory.CudaMajor()) + "." + std::to_string(inventory.CudaMinor());
  for (auto& device : inventory.devices) {
    GpuView view;
    if (!device.fault) {
      auto readings = library.ReadReadings(device.uuid);
      if (readings) {
        view.readings = *std::move(readings);
      } else {
        device.fault = readings.error();
      }
    }
    view.device = std::move(device);
    snapshot.gpus.push_back(std::move(view));
  }
  return snapshot;
}

base::Status Select(Snapshot& snapshot, const std::string& selection) {
  if (selection.empty()) return {};
  std::vector<GpuView> kept;
  for (const auto& wanted : base::SplitTrimmed(selection, ',')) {
    const auto address = gpu::PciAddress::Parse(wanted);
    const auto found = std::ranges::find_if(snapshot.gpus, [&](const GpuView& view) {
      const auto& device = view.device;
      return wanted == std::to_string(device.index) || wanted == device.uuid ||
             (!device.serial.empty() && wanted == device.serial) ||
             (address && !device.uuid.empty() && *address == device.pci);
    });
    if (found == snapshot.gpus.end()) {
      return base::Fail(base::NotFound("NoSuchGpu", "no GPU is called \"" + wanted + "\""));
    }
    kept.push_back(*found);
  }
  snapshot.gpus = std::move(kept);
  return {};
}

}  // namespace pitcrew::node::smi
