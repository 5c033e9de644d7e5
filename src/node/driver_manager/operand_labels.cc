#include "node/driver_manager/operand_labels.h"

#include <fmt/format.h>

#include "api/labels.h"
#include "base/strings.h"

namespace pitcrew::node::driver_manager {
namespace {

constexpr std::string_view kPaused = api::kPausedForDriverUpgrade;

template <class Change>
std::optional<codec::Json> LabelPatch(const codec::Json& node, std::string_view custom_label,
                                      Change change) {
  codec::Json labels = codec::Json::object();
  const auto consider = [&](std::string_view name) {
    const auto value = LabelOf(node, name);
    if (auto changed = change(value); changed != value) labels[std::string(name)] = changed;
  };
  for (const auto& operand : OperandLabels()) consider(operand.label);
  if (!custom_label.empty()) consider(custom_label);
  if (labels.empty()) return std::nullopt;
  return codec::Json{{"metadata", {{"labels", std::move(labels)}}}};
}

std::string MetadataText(const codec::Json& object, std::string_view part, std::string_view name) {
  return codec::FindString(object, {"metadata", part, name});
}

}  // namespace

const std::vector<OperandLabel>& OperandLabels() {
  static const std::vector<OperandLabel> kOperands = {
      {api::kDeployOperatorValidator, "nvidia-operator-validator"},
      {api::kDeployContainerToolkit, "nvidia-container-toolkit-daemonset"},
      // Of the runtimes beside the main one in a mixed cluster.
      {api::kDeployContainerToolkit, "nvidia-container-toolkit-daemonset-containerd"},
      {api::kDeployContainerToolkit, "nvidia-container-toolkit-daemonset-crio"},
      {api::kDeployContainerToolkit, "nvidia-container-toolkit-daemonset-docker"},
      {api::kDeployDevicePlugin, "nvidia-device-plugin-daemonset"},
      {api::kDeployGpuFeatureDiscovery, "gpu-feature-discovery"},
      {api::kDeployDcgmExporter, "nvidia-dcgm-exporter"},
      {api::kDeployDcgm, "nvidia-dcgm"},
      {api::kDeployDcgmExporterDra, "nvidia-dcgm-exporter-dra"},
      {api::kDeployDcgmDra, "nvidia-dcgm-dra"},
      {api::kDeployDraValidator, ""},
      {"nvidia.com/gpu.deploy.nvsm", ""},
      {api::kDeployMigManager, "nvidia-mig-manager"},
      {api::kDeploySandboxValidator, "nvidia-sandbox-validator"},
      {api::kDeploySandboxDevicePlugin, "nvidia-sandbox-device-plugin-daemonset"},
      {api::kDeployVgpuDeviceManager, "nvidia-vgpu-device-manager"},
      {api::kDeployClient, ""},
      {api::kDeployDraDriver, "nvidia-dra-driver-kubelet-plugin"},
  };
  return kOperands;
}

std::string PausedValue(std::string_view value) {
  if (value.empty() || value == "false" || value.find(kPaused) != std::string_view::npos) {
    return std::string(value);
  }
  if (value == "true") return std::string(kPaused);
  return fmt::format("{}_{}", value, kPaused);
}

std::string ResumedValue(std::string_view value) {
  if (value == kPaused) return "true";
  if (value.find(kPaused) == std::string_view::npos) return std::string(value);
  auto rest = base::ReplaceAll(std::string(value), fmt::format("{}_", kPaused), "");
  rest = base::ReplaceAll(std::move(rest), kPaused, "");
  while (rest.ends_with('_')) rest.pop_back();
  while (rest.starts_with('_')) rest.erase(rest.begin());
  return rest;
}

std::optional<codec::Json> PausePatch(const codec::Json& node, std::string_view custom_label) {
  return LabelPatch(node, custom_label, PausedValue);
}

std::optional<codec::Json> ResumePatch(const codec::Json& node, std::string_view custom_label) {
  return LabelPatch(node, custom_label, ResumedValue);
}

std::string LabelOf(const codec::Json& object, std::string_view name) {
  return MetadataText(object, "labels", name);
}

std::string AnnotationOf(const codec::Json& object, std::string_view name) {
  return MetadataText(object, "annotations", name);
}

}  // namespace pitcrew::node::driver_manager
