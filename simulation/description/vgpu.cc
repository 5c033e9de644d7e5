#include "simulation/description/vgpu.h"

#include <algorithm>
#include <charconv>

#include "simulation/description/profiles.h"

namespace pitcrew::simulation {
namespace {

// The gibibytes of "A100D-16C" and "A100D-1-10CME": the digits before the letter of the series. 0:
// not so written.
std::uint32_t FramebufferOf(std::string_view name) {
  const auto digits = name.substr(name.rfind('-') + 1);
  std::uint32_t gib = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), gib);
  return error == std::errc{} && end != digits.data() + digits.size() ? gib : 0;
}

void ReadRun(Mapping& run, const std::string& board, sysfs::Gpu& gpu) {
  auto id = static_cast<std::uint32_t>(run.Unsigned("first", 1, 0xffff));
  Mapping counts = run.Inner("counts", "the counts of vGPU types");
  for (const auto& member : counts.Members()) {
    const auto count = ParseNumber(member.value);
    sysfs::VgpuType type{id++, board + "-" + member.key, FramebufferOf(member.key), 0,
                         sysfs::MigInstanceOf(member.key)};
    if (!count || *count == 0 || type.framebuffer_gib == 0) {
      counts.source().Fail(member.value.Mark(),
                           "a vGPU type looks like \"4C: 10\" or \"1-5C: 7\": name without the "
                           "GPU's, and how many fit");
      return;
    }
    type.count = static_cast<std::uint32_t>(*count);
    if (gpu.FindType(type.id) != nullptr) {
      counts.source().Fail(member.value.Mark(), "two vGPU types have the number of this one");
    }
    gpu.types.push_back(std::move(type));
  }
  run.RefuseOthers();
}

}  // namespace

sysfs::Gpu ReadVgpus(Mapping& profile) {
  sysfs::Gpu gpu;
  if (!profile.Has("vgpu")) return gpu;
  Mapping vgpu = profile.Inner("vgpu", "vgpu");
  const std::string board = vgpu.Text("name");
  gpu.virtual_functions = static_cast<std::uint32_t>(vgpu.Unsigned("virtual_functions", 0, 64));
  for (auto& run : vgpu.Inners("types", "a run of vGPU types")) ReadRun(run, board, gpu);
  vgpu.RefuseOthers();
  std::ranges::sort(gpu.types, {}, &sysfs::VgpuType::id);
  return gpu;
}

base::Result<sysfs::Gpu> LoadVgpus(std::string_view profile, const std::filesystem::path& folder) {
  TRY_ASSIGN(const auto text, ReadProfileText(profile, folder));
  Source source{text.source, {}};
  Mapping root(source, ParseDocument(source, text.text), "a GPU profile");
  sysfs::Gpu gpu = ReadVgpus(root);
  if (source.error) return base::Fail(*source.error);
  gpu.profile = profile;
  return gpu;
}

}  // namespace pitcrew::simulation
