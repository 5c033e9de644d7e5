#include "cdi/generate/device_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace pitcrew::cdi_generate {
namespace {

constexpr std::string_view kNone = "none";
constexpr std::string_view kAll = "all";

// The first word that is no device's id; "" without one.
std::string_view SpecialWord(const std::vector<std::string>& ids) {
  for (const auto& id : ids) {
    if (id == kNone || id == kAll) return id;
  }
  return "";
}

base::Error NoSuchDevice(const std::string& id, const gpu::Inventory& inventory) {
  return base::NotFound("NoSuchDevice", fmt::format("there is no device {}; this node has {} GPUs",
                                                    id, inventory.devices.size()));
}

const gpu::Device* GpuAt(const gpu::Inventory& inventory, std::int64_t index) {
  const auto found = std::ranges::find_if(
      inventory.devices, [&](const gpu::Device& one) { return std::cmp_equal(one.index, index); });
  return found == inventory.devices.end() ? nullptr : &*found;
}

// "MIG-GPU-<uuid>/1/0", the form of older drivers.
std::string OlderName(const gpu::Device& gpu, const gpu::MigDevice& mig) {
  return fmt::format("MIG-{}/{}/{}", gpu.uuid, mig.gpu_instance_id, mig.compute_instance_id);
}

// "54d0709b-558d-5a59-9c65-0c5fc14a21a4": some integrated GPUs have no prefix.
bool IsPlainUuid(const std::string& id) {
  if (id.size() != 36) return false;
  for (std::size_t i = 0; i < id.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash ? id[i] != '-' : std::isxdigit(static_cast<unsigned char>(id[i])) == 0)
      return false;
  }
  return true;
}

std::optional<ChosenDevice> ByUuid(const gpu::Inventory& inventory, std::string_view id) {
  for (const auto& gpu : inventory.devices) {
    if (gpu.uuid == id) return ChosenDevice{&gpu, nullptr};
    for (const auto& mig : gpu.mig_devices) {
      if (mig.uuid == id || OlderName(gpu, mig) == id) return ChosenDevice{&gpu, &mig};
    }
  }
  return std::nullopt;
}

std::optional<ChosenDevice> ByIndex(const gpu::Inventory& inventory, std::int64_t gpu_index,
                                    std::optional<std::int64_t> mig_index) {
  const auto* gpu = GpuAt(inventory, gpu_index);
  if (gpu == nullptr) return std::nullopt;
  if (!mig_index) return ChosenDevice{gpu, nullptr};
  const auto mig = std::ranges::find_if(gpu->mig_devices, [&](const gpu::MigDevice& one) {
    return std::cmp_equal(one.index, *mig_index);
  });
  if (mig == gpu->mig_devices.end()) return std::nullopt;
  return ChosenDevice{gpu, &*mig};
}

base::Result<ChosenDevice> Choose(const gpu::Inventory& inventory, const std::string& id) {
  std::optional<ChosenDevice> found;
  if (id.starts_with("GPU-") || id.starts_with("MIG-") || IsPlainUuid(id)) {
    found = ByUuid(inventory, id);
  } else {
    const auto colon = id.find(':');
    const auto gpu = base::ParseInteger(id.substr(0, colon));
    const auto mig = colon == std::string::npos ? gpu : base::ParseInteger(id.substr(colon + 1));
    if (!gpu || !mig) {
      return base::Fail(base::Invalid(
          "BadDeviceId",
          fmt::format(
              "\"{}\" names no device: write an index (0), the index of a MIG device (0:1), "
              "or a UUID (GPU-…, MIG-…)",
              id)));
    }
    found =
        ByIndex(inventory, *gpu, colon == std::string::npos ? std::nullopt : std::optional(*mig));
  }
  if (!found) return base::Fail(NoSuchDevice(id, inventory));
  return *found;
}

}  // namespace

bool MeansNoDevice(const std::vector<std::string>& ids) { return SpecialWord(ids) == kNone; }

bool MeansAllDevices(const std::vector<std::string>& ids) { return SpecialWord(ids) == kAll; }

base::Result<std::vector<ChosenDevice>> ChooseDevices(const gpu::Inventory& inventory,
                                                      const std::vector<std::string>& ids) {
  std::vector<ChosenDevice> chosen;
  for (const auto& id : ids) {
    TRY_ASSIGN(const auto one, Choose(inventory, id));
    if (std::ranges::find(chosen, one) == chosen.end()) chosen.push_back(one);
  }
  return chosen;
}

}  // namespace pitcrew::cdi_generate
