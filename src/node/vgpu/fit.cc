#include "node/vgpu/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/strings.h"
#include "node/vgpu/type_name.h"

namespace pitcrew::node::vgpu {
namespace {

// In halves of a gigabyte; 0 for names of another form.
std::uint64_t HalfGigabytes(std::string_view type) {
  const auto name = TypeName::Parse(type);
  if (!name) return 0;
  return name->gigabytes == 0 ? 1 : 2 * static_cast<std::uint64_t>(name->gigabytes);
}

// How many of a type an empty GPU can have at most; nullopt: not known.
std::optional<std::uint64_t> MostOf(const Gpu& gpu, const std::string& name) {
  std::optional<std::uint64_t> most;
  const auto limit = [&most](std::uint64_t bound) { most = std::min(most.value_or(bound), bound); };
  if (const auto* type = gpu.FindType(name); type != nullptr && type->most) limit(*type->most);
  // One vGPU a virtual function.
  if (gpu.functions > 0) limit(gpu.slots.size());
  // What others have taken is not told apart from what never was there.
  const bool alone =
      std::ranges::all_of(gpu.vgpus, [&](const Vgpu& vgpu) { return vgpu.type == name; });
  // A GPU of the vendor-specific framework counts a virtual function until its last room is gone.
  if (alone && gpu.framework == Framework::kMdev) {
    const auto free =
        std::accumulate(gpu.slots.begin(), gpu.slots.end(), std::uint64_t{0},
                        [&](std::uint64_t sum, const Slot& slot) { return sum + slot.Room(name); });
    limit(free + gpu.vgpus.size());
  }
  return most;
}

// The GPU's frame buffer as its types tell it: time-sliced vGPUs of several sizes share it.
std::optional<std::uint64_t> FrameBuffer(const Gpu& gpu) {
  std::optional<std::uint64_t> size;
  for (const auto& type : gpu.types) {
    const auto name = TypeName::Parse(type.name);
    if (!name || name->is_mig_backed() || !type.most) continue;
    size = std::max(size.value_or(0), *type.most * HalfGigabytes(type.name));
  }
  return size;
}

std::string Fitting(const Gpu& gpu, const Counts& wanted) {
  std::vector<std::string> texts;
  for (const auto& [type, count] : wanted) {
    const auto most = MostOf(gpu, type);
    if (most && *most > 0) texts.push_back(fmt::format("{} x {}", *most, type));
  }
  if (texts.empty()) return "it has " + DescribeTypes(gpu);
  return "what fits is up to " + base::Join(texts, ", or ");
}

std::unexpected<base::Error> DoesNotFit(const Gpu& gpu, const Counts& wanted, std::string problem) {
  return base::Fail(base::Invalid(
      "DoesNotFit", fmt::format("{}: {}; {}", gpu.Title(), problem, Fitting(gpu, wanted))));
}

}  // namespace

base::Status CheckFits(const Gpu& gpu, const Counts& wanted) {
  std::uint64_t total = 0;
  std::uint64_t size = 0;
  bool time_sliced = true;
  for (const auto& [type, count] : wanted) {
    const auto number = static_cast<std::uint64_t>(count);
    total += number;
    size += number * HalfGigabytes(type);
    const auto name = TypeName::Parse(type);
    time_sliced = time_sliced && name && !name->is_mig_backed();
    const auto most = MostOf(gpu, type);
    if (!most || number <= *most) continue;
    return DoesNotFit(
        gpu, wanted,
        fmt::format("failed to create {0} {1} vGPU devices on the GPU. ensure '{2}' does not "
                    "exceed the maximum supported instances for '{1}'",
                    number - *most, type, number));
  }
  if (gpu.functions > 0 && total > gpu.slots.size()) {
    return DoesNotFit(gpu, wanted,
                      fmt::format("{} vGPUs are wanted, and it has {} virtual functions", total,
                                  gpu.slots.size()));
  }
  const auto frame_buffer = FrameBuffer(gpu);
  if (time_sliced && wanted.size() > 1 && frame_buffer && size > *frame_buffer) {
    return DoesNotFit(gpu, wanted,
                      fmt::format("the vGPUs that are wanted have {} GB of frame buffer together, "
                                  "and it has {}",
                                  (size + 1) / 2, *frame_buffer / 2));
  }
  return {};
}

}  // namespace pitcrew::node::vgpu
