#include "gpu/mig_profile.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace pitcrew::gpu {
namespace {

struct GpuInstanceIndex {
  int slices;
  std::string_view attribute;           // behind '+'
  std::string_view negative_attribute;  // behind '-'
};

// NVML's GPU instance profile indices 0 to 17 (mig-manager.md section 5.5). Upstream refuses index
// 17 (3_SLICE_GFX) and with it the whole listing; here it is what NVML calls it.
constexpr std::array<GpuInstanceIndex, kGpuInstanceProfileCount> kGpuInstances = {{
    {1, "", ""},
    {2, "", ""},
    {3, "", ""},
    {4, "", ""},
    {7, "", ""},
    {8, "", ""},
    {6, "", ""},
    {1, "me", ""},
    {2, "me", ""},
    {1, "", ""},
    {1, "gfx", ""},
    {2, "gfx", ""},
    {4, "gfx", ""},
    {1, "", "me"},
    {2, "", "me"},
    {1, "me.all", ""},
    {2, "me.all", ""},
    {3, "gfx", ""},
}};

constexpr std::array<int, kComputeInstanceProfileCount> kComputeInstances = {1, 2, 3, 4, 7,
                                                                             8, 6, 1, 7};

base::Error BadProfile(std::string_view text, std::string_view what) {
  return base::Invalid("InvalidMigProfile", "MIG profile \"" + std::string(text) + "\" " +
                                                std::string(what) +
                                                "; a profile looks like 1g.10gb, 1c.2g.20gb or "
                                                "1g.10gb+me");
}

// "<number><suffix>", nothing else.
bool ParseField(std::string_view field, std::string_view suffix, int& value) {
  if (!field.ends_with(suffix)) return false;
  field.remove_suffix(suffix.size());
  if (field.empty() || std::isdigit(static_cast<unsigned char>(field[0])) == 0) return false;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return error == std::errc{} && end == field.data() + field.size();
}

bool IsAttribute(std::string_view text) {
  if (text.empty() || text.front() == '.' || text.back() == '.') return false;
  if (std::isdigit(static_cast<unsigned char>(text.front())) != 0) return false;
  return std::ranges::all_of(text,
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '.'; });
}

// Comma-separated, non-empty, unique.
bool ParseAttributes(std::string_view text, std::vector<std::string>& attributes) {
  while (true) {
    const auto comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    if (!IsAttribute(one) || std::ranges::find(attributes, one) != attributes.end()) return false;
    attributes.emplace_back(one);
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

void AppendAttributes(std::string& text, char sign, const std::vector<std::string>& attributes) {
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    text += i == 0 ? sign : ',';
    text += attributes[i];
  }
}

}  // namespace

std::string MigProfile::Name() const {
  std::string text;
  if (compute_slices != gpu_slices) text = std::to_string(compute_slices) + "c.";
  text += std::to_string(gpu_slices) + "g." + std::to_string(memory_gb) + "gb";
  AppendAttributes(text, '+', attributes);
  AppendAttributes(text, '-', negative_attributes);
  return text;
}

std::string MigProfile::ResourceSuffix() const {
  std::string text = Name();
  std::ranges::replace(text, '+', '.');
  return text;
}

base::Result<MigProfile> MigProfile::Parse(std::string_view text) {
  if (text.empty()) return base::Fail(BadProfile(text, "is empty"));
  MigProfile profile;
  const auto sign = text.find_first_of("+-");
  std::string_view fields = text.substr(0, sign);
  if (text.find('+') != std::string_view::npos && text.find('-') != std::string_view::npos) {
    return base::Fail(BadProfile(text, "has both '+' and '-' attributes"));
  }
  if (sign != std::string_view::npos &&
      !ParseAttributes(text.substr(sign + 1),
                       text[sign] == '+' ? profile.attributes : profile.negative_attributes)) {
    return base::Fail(BadProfile(text, "has a malformed or repeated attribute"));
  }
  std::vector<std::string_view> parts;
  while (parts.size() < 2) {
    const auto dot = fields.find('.');
    if (dot == std::string_view::npos) break;
    parts.push_back(fields.substr(0, dot));
    fields.remove_prefix(dot + 1);
  }
  parts.push_back(fields);
  const bool has_compute = parts.size() == 3;
  bool good = parts.size() >= 2;
  good = good && (!has_compute || ParseField(parts[0], "c", profile.compute_slices));
  good = good && ParseField(parts[has_compute ? 1 : 0], "g", profile.gpu_slices);
  good = good && ParseField(parts.back(), "gb", profile.memory_gb);
  if (!good) return base::Fail(BadProfile(text, "has malformed fields"));
  if (!has_compute) profile.compute_slices = profile.gpu_slices;
  return profile;
}

int GpuInstanceSlices(unsigned gpu_instance_profile_index) {
  if (gpu_instance_profile_index >= kGpuInstances.size()) return 0;
  return kGpuInstances[gpu_instance_profile_index].slices;
}

int ComputeInstanceSlices(unsigned compute_instance_profile_index) {
  if (compute_instance_profile_index >= kComputeInstances.size()) return 0;
  return kComputeInstances[compute_instance_profile_index];
}

base::Result<MigProfile> NameMigProfile(unsigned gpu_instance_profile_index,
                                        unsigned compute_instance_profile_index,
                                        std::uint64_t memory_mib,
                                        std::uint64_t total_memory_bytes) {
  MigProfile profile;
  profile.gpu_slices = GpuInstanceSlices(gpu_instance_profile_index);
  profile.compute_slices = ComputeInstanceSlices(compute_instance_profile_index);
  if (profile.gpu_slices == 0 || profile.compute_slices == 0) {
    return base::Fail(
        base::Invalid("InvalidMigProfile", "there is no MIG profile with GPU instance index " +
                                               std::to_string(gpu_instance_profile_index) +
                                               " and compute instance index " +
                                               std::to_string(compute_instance_profile_index)));
  }
  if (total_memory_bytes == 0) {
    return base::Fail(base::Invalid("InvalidMigProfile", "the GPU reports no memory"));
  }
  const double total = static_cast<double>(total_memory_bytes);
  const double fraction =
      std::ceil(8.0 * static_cast<double>(memory_mib) * 1048576.0 / total) / 8.0;
  const double total_gib = std::ceil(total / 1073741824.0);
  profile.memory_gb = static_cast<int>(std::round(fraction * total_gib));
  const auto& row = kGpuInstances[gpu_instance_profile_index];
  if (!row.attribute.empty()) profile.attributes.emplace_back(row.attribute);
  if (!row.negative_attribute.empty()) {
    profile.negative_attributes.emplace_back(row.negative_attribute);
  }
  return profile;
}

bool IsListedCombination(int compute_slices, int gpu_slices) {
  if (compute_slices > gpu_slices) return false;
  return compute_slices == gpu_slices || 2 * compute_slices <= gpu_slices + 1;
}

}  // namespace pitcrew::gpu
