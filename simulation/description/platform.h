// What a description says of the machine around the GPUs: which kernel runs on it, and what else is
// on PCI.
#pragma once

#include <array>
#include <cstdint>

#include "simulation/state/layout.h"
#include "simulation/sysfs/machine.h"

namespace pitcrew::simulation {

// What comes with one GPU.
struct CardDescription {
  bool audio = false;  // functions of the card, in the GPU's IOMMU group
  bool usb = false;
  bool ucsi = false;
  bool foreign_in_group = false;  // somebody else's network card is in it as well
  bool boot_display = false;      // the firmware's framebuffer is on it
};

struct PlatformDescription {
  sysfs::Platform kernel;
  std::uint32_t switches = 0;  // NVSwitches
  std::array<CardDescription, kMaxGpus> cards{};
};

}  // namespace pitcrew::simulation
