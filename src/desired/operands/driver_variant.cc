#include "desired/operands/driver_variant.h"

#include <fmt/format.h>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/daemonset.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kToolkitContainer = "openshift-driver-toolkit-ctr";
constexpr std::string_view kSharedFolder = "/mnt/shared-nvidia-driver-toolkit";

void SetEverywhere(Object& daemonset, std::string_view key, std::string_view value) {
  SetLabel(daemonset, key, value);
  SetLabel(PodTemplate(daemonset), key, value);
}

// One operand container under the toolkit's entry point, with or without an image for this version.
void RunUnderToolkit(Object& daemonset, std::string_view name, std::string_view argument,
                     const std::string& rhcos_version, const std::string& toolkit_image) {
  Object* operand = FindContainer(daemonset, name);
  if (operand == nullptr) return;
  Object& toolkit = *FindContainer(daemonset, kToolkitContainer);
  SetEnv(toolkit, "RHCOS_VERSION", rhcos_version);
  if (toolkit_image.empty()) {
    SetEverywhere(daemonset, api::kDriverToolkitImageMissing, "true");
    toolkit["image"] = (*operand)["image"];
    SetEnv(toolkit, "RHCOS_IMAGE_MISSING", "true");
    SetEnv(*operand, "RHCOS_IMAGE_MISSING", "true");
    SetEnv(*operand, "RHCOS_VERSION", rhcos_version);
  } else {
    toolkit["image"] = toolkit_image;
  }
  (*operand)["command"] = Object::array({"ocp_dtk_entrypoint"});
  (*operand)["args"] = Object::array({argument});
  AddMount(*operand,
           {.volume = "shared-nvidia-driver-toolkit", .path = std::string(kSharedFolder)});
}

}  // namespace

std::string SanitizeKernelVersion(std::string_view kernel) {
  std::string text(kernel);
  for (const std::string_view architecture : {"x86_64_64k", "x86_64", "aarch64_64k", "aarch64"}) {
    text = base::ReplaceAll(std::move(text), architecture, "");
  }
  text = base::ReplaceAll(std::move(text), "_", ".");
  if (text.ends_with('.')) text.pop_back();
  return base::ToLower(text);
}

void MakePrecompiledVariant(Object& daemonset, const std::string& kernel, const OsRelease& os) {
  daemonset["metadata"]["name"] =
      fmt::format("{}-{}-{}", NameOf(daemonset), SanitizeKernelVersion(kernel), os.full());
  SetEverywhere(daemonset, api::kPrecompiled, "true");
  SetNodeSelector(daemonset, api::kKernelVersionFull, kernel);
}

bool UsesDriverToolkit(const Context& context) {
  if (context.driver_spec != nullptr) {
    // NVIDIADriver objects have no switch for it (operand-manifests.md section 23).
    return context.facts.openshift() && !context.driver().use_precompiled &&
           !context.facts.driver_toolkit.images.empty();
  }
  return context.facts.openshift() && context.policy.operator_settings.use_driver_toolkit &&
         !context.driver().use_precompiled && context.facts.driver_toolkit.image_stream_exists &&
         !context.facts.rhcos_versions.empty();
}

base::Status MakeDriverToolkitVariant(Object& daemonset, const std::string& rhcos_version,
                                      const std::optional<codec::Json>& resources,
                                      const Context& context) {
  TRY_ASSIGN(Object * toolkit, RequireContainer(daemonset, kToolkitContainer));
  const std::string name = fmt::format("{}-{}", NameOf(daemonset), rhcos_version);
  daemonset["metadata"]["name"] = name;
  SetEverywhere(daemonset, api::kAppLabel, name);
  daemonset["spec"]["selector"]["matchLabels"][std::string(api::kAppLabel)] = name;
  SetLabel(daemonset, api::kDriverToolkitRhcos, rhcos_version);
  SetEverywhere(daemonset, api::kDriverToolkit, "true");
  SetNodeSelector(daemonset, api::kOsTreeVersion, rhcos_version);

  if (context.gds_enabled()) SetEnv(*toolkit, "GDS_ENABLED", "true");
  if (context.gdrcopy_enabled()) SetEnv(*toolkit, "GDRCOPY_ENABLED", "true");
  SetResources(*toolkit, resources);
  SetVolume(daemonset, {{"name", "shared-nvidia-driver-toolkit"}, {"emptyDir", Object::object()}});

  const auto& images = context.facts.driver_toolkit.images;
  const auto image = images.find(rhcos_version);
  const std::string toolkit_image = image == images.end() ? "" : image->second;
  constexpr std::pair<std::string_view, std::string_view> kOperands[] = {
      {"nvidia-fs-ctr", "nv-fs-ctr-run-with-dtk"},
      {"nvidia-gdrcopy-ctr", "gdrcopy-ctr-run-with-dtk"},
      {"nvidia-driver-ctr", "nv-ctr-run-with-dtk"},
      {"nvidia-vgpu-manager-ctr", "nv-ctr-run-with-dtk"}};
  for (const auto& [container, argument] : kOperands) {
    RunUnderToolkit(daemonset, container, argument, rhcos_version, toolkit_image);
  }
  return {};
}

}  // namespace pitcrew::desired
