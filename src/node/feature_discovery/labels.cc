#include "node/feature_discovery/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/labels.h"
#include "base/strings.h"
#include "node/feature_discovery/resource_labels.h"

namespace pitcrew::node::feature_discovery {
namespace {

using base::Result;
using base::Status;

constexpr std::uint32_t kVgaController = 0x030000;
constexpr std::uint32_t k3dController = 0x030200;

Status AddVersions(const gpu::Inventory& gpus, Labels& labels) {
  const auto parts = base::Split(gpus.driver_version, '.');
  if (parts.size() < 2 || parts.size() > 3) {
    return base::Fail(base::Invalid(
        "BadDriverVersion", fmt::format("the driver's version \"{}\" has not two or three parts",
                                        gpus.driver_version)));
  }
  const std::string revision = parts.size() == 3 ? parts[2] : "";
  labels["nvidia.com/cuda.driver.major"] = parts[0];
  labels["nvidia.com/cuda.driver.minor"] = parts[1];
  labels["nvidia.com/cuda.driver.rev"] = revision;
  labels["nvidia.com/cuda.driver-version.major"] = parts[0];
  labels["nvidia.com/cuda.driver-version.minor"] = parts[1];
  labels["nvidia.com/cuda.driver-version.revision"] = revision;
  labels["nvidia.com/cuda.driver-version.full"] = gpus.driver_version;
  const auto major = std::to_string(gpus.CudaMajor());
  const auto minor = std::to_string(gpus.CudaMinor());
  labels["nvidia.com/cuda.runtime.major"] = major;
  labels["nvidia.com/cuda.runtime.minor"] = minor;
  labels["nvidia.com/cuda.runtime-version.major"] = major;
  labels["nvidia.com/cuda.runtime-version.minor"] = minor;
  labels["nvidia.com/cuda.runtime-version.full"] = fmt::format("{}.{}", major, minor);
  return {};
}

std::string ModeOf(const Facts& facts) {
  std::set<std::uint32_t> classes;
  for (const auto& device : facts.gpus.devices) {
    const auto found = facts.pci_classes.find(device.pci);
    if (found == facts.pci_classes.end()) return "unknown";
    classes.insert(found->second);
  }
  if (classes == std::set{kVgaController}) return "graphics";
  if (classes == std::set{k3dController}) return "compute";
  return "unknown";
}

// Section 4.5.
void AddClique(const Facts& facts, Description& description) {
  std::set<std::string> cliques;
  for (const auto& device : facts.gpus.devices) {
    const auto* fabric = device.fabric.value();
    if (fabric == nullptr || !fabric->IsAttached()) continue;
    cliques.insert(fmt::format("{}.{}", fabric->ClusterUuidText(), fabric->clique_id));
  }
  if (cliques.size() == 1) description.labels["nvidia.com/gpu.clique"] = *cliques.begin();
  if (cliques.size() > 1) {
    description.warnings.push_back(
        fmt::format("the GPUs belong to several cliques ({}): there is no clique label",
                    fmt::join(cliques, ", ")));
  }
}

void AddVgpu(const Facts& facts, Labels& labels) {
  if (facts.vgpu.is_unknown()) return;
  const auto* vgpu = facts.vgpu.value();
  labels["nvidia.com/vgpu.present"] = vgpu != nullptr ? "true" : "false";
  if (vgpu == nullptr) return;
  labels[std::string(api::kVgpuHostDriverVersion)] = vgpu->host_driver_version;
  labels["nvidia.com/vgpu.host-driver-branch"] = vgpu->host_driver_branch;
}

void AddCapabilities(const Facts& facts, const api::Sharing& sharing, Labels& labels) {
  const auto& devices = facts.gpus.devices;
  const bool mig_capable =
      std::ranges::any_of(devices, [](const auto& device) { return device.IsMigCapable(); });
  const bool mig_enabled =
      std::ranges::any_of(devices, [](const auto& device) { return device.IsMigEnabled(); });
  // MPS and MIG exclude each other here: the label says so instead of no label saying anything.
  const bool mps = sharing.strategy() == api::SharingStrategy::kMps && !mig_enabled;
  labels[std::string(api::kMigCapable)] = mig_capable ? "true" : "false";
  labels[std::string(api::kMpsCapable)] = mps ? "true" : "false";
}

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// The API server refuses values that are longer than 63 characters or do not begin and end with a
// letter or digit; one bad value would cost the node all its labels.
std::string FitLabelValue(std::string value) {
  constexpr std::size_t kLongest = 63;
  value.resize(std::min(value.size(), kLongest));
  while (!value.empty() && !IsAlphanumeric(value.back())) value.pop_back();
  const auto first = std::ranges::find_if(value, IsAlphanumeric);
  value.erase(value.begin(), first);
  return value;
}

}  // namespace

std::string Sanitise(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    if (IsAlphanumeric(c) || c == '-' || c == '_' || c == '.' || c == ' ') kept += c;
  }
  return base::Join(base::SplitTrimmed(kept, ' '), "-");
}

Result<Description> Describe(const Facts& facts, gpu::MigStrategy strategy,
                             const api::Sharing& sharing) {
  Description description;
  auto& labels = description.labels;
  if (facts.timestamp) labels["nvidia.com/gfd.timestamp"] = std::to_string(*facts.timestamp);
  if (!facts.gpus.devices.empty()) {
    labels["nvidia.com/gpu.machine"] =
        facts.machine ? Sanitise(base::Trim(*facts.machine)) : "unknown";
    TRY(AddVersions(facts.gpus, labels));
    AddCapabilities(facts, sharing, labels);
    AddResourceLabels(facts.gpus, facts.unreadable_gpus, strategy, sharing, description);
    labels["nvidia.com/gpu.mode"] = ModeOf(facts);
    AddClique(facts, description);
  }
  AddVgpu(facts, labels);
  for (auto& [name, value] : labels) value = FitLabelValue(std::move(value));
  return description;
}

}  // namespace pitcrew::node::feature_discovery
