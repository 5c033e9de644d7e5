#include "support_boards.h"

#include <vector>

namespace pitcrew::node::mig {
namespace {

using base::Observed;

std::vector<gpu::MigPlacement> Places(std::initializer_list<unsigned> starts, unsigned size) {
  std::vector<gpu::MigPlacement> places;
  for (const unsigned start : starts) places.push_back({start, size});
  return places;
}

Gpu Board(int position, std::uint32_t id, const char* name, std::uint64_t mib) {
  Gpu gpu{.position = position,
          .pci = {.domain = 0, .bus = static_cast<std::uint8_t>(0x10 + position)},
          .id = {id, 0x147F10DE},
          .uuid = "GPU-" + std::to_string(position),
          .name = name,
          .memory_bytes = mib << 20};
  gpu.mode = Observed<gpu::MigMode>::Present({true, true});
  gpu.layout = Observed<Layout>::Present({.mig_enabled = true, .instances = {}});
  return gpu;
}

}  // namespace

Gpu A100With40Gb(int position) {
  Gpu gpu = Board(position, 0x20B010DE, "NVIDIA A100-SXM4-40GB", 40960);
  // Engines: decoders, encoders, JPEG, optical flow.
  gpu.profiles = Observed<std::vector<Profile>>::Present({
      {.index = 0,
       .id = 19,
       .count = 7,
       .memory_mib = 4864,
       .engines = {0, 0, 0, 0},
       .placements = Places({0, 1, 2, 3, 4, 5, 6}, 1)},
      {.index = 1,
       .id = 14,
       .count = 3,
       .memory_mib = 9856,
       .engines = {1, 0, 0, 0},
       .placements = Places({0, 2, 4}, 2)},
      {.index = 2,
       .id = 9,
       .count = 2,
       .memory_mib = 19968,
       .engines = {2, 0, 0, 0},
       .placements = Places({0, 4}, 4)},
      {.index = 3,
       .id = 5,
       .count = 1,
       .memory_mib = 19968,
       .engines = {2, 0, 0, 0},
       .placements = Places({0}, 4)},
      {.index = 4,
       .id = 0,
       .count = 1,
       .memory_mib = 40192,
       .engines = {5, 0, 1, 1},
       .placements = Places({0}, 8)},
      {.index = 7,
       .id = 20,
       .count = 1,
       .memory_mib = 4864,
       .engines = {1, 0, 1, 1},
       .placements = Places({0, 1, 2, 3, 4, 5, 6}, 1)},
      {.index = 9,
       .id = 15,
       .count = 4,
       .memory_mib = 9856,
       .engines = {1, 0, 0, 0},
       .placements = Places({0, 2, 4, 6}, 2)},
  });
  return gpu;
}

Gpu A30(int position) {
  Gpu gpu = Board(position, 0x20B710DE, "NVIDIA A30", 24576);
  gpu.profiles = Observed<std::vector<Profile>>::Present({
      // The driver's counts of this board are wrong.
      {.index = 0,
       .id = 14,
       .count = 1,
       .memory_mib = 5836,
       .engines = {0, 0, 0, 0},
       .placements = Places({0, 1, 2, 3}, 1)},
      {.index = 1,
       .id = 5,
       .count = 1,
       .memory_mib = 11672,
       .engines = {2, 0, 0, 0},
       .placements = Places({0, 2}, 2)},
      {.index = 3,
       .id = 0,
       .count = 1,
       .memory_mib = 23344,
       .engines = {4, 0, 1, 1},
       .placements = Places({0}, 4)},
  });
  return gpu;
}

Gpu WithMigOff(Gpu gpu) {
  gpu.mode = Observed<gpu::MigMode>::Present({false, false});
  gpu.layout = Observed<Layout>::Missing();
  return gpu;
}

Gpu WithoutMig(int position) {
  Gpu gpu = Board(position, 0x1EB810DE, "Tesla T4", 15360);
  gpu.mode = Observed<gpu::MigMode>::Missing();
  gpu.layout = Observed<Layout>::Missing();
  return gpu;
}

}  // namespace pitcrew::node::mig
