// Driver (reference operand-manifests.md section 6).
#include <fmt/format.h>

#include <optional>

#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/image_reference.h"
#include "desired/operands/driver_content.h"
#include "desired/operands/driver_digest.h"
#include "desired/operands/driver_files.h"
#include "desired/operands/driver_manager.h"
#include "desired/operands/driver_object.h"
#include "desired/operands/driver_variant.h"
#include "desired/operands/operands.h"
#include "desired/owned_object.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "DRIVER_IMAGE";
constexpr std::string_view kGdsImage = "GDS_IMAGE";
constexpr std::string_view kGdrcopyImage = "GDRCOPY_IMAGE";
constexpr std::string_view kManager = "k8s-driver-manager";
constexpr std::string_view kDriver = "nvidia-driver-ctr";
constexpr std::string_view kPeermem = "nvidia-peermem-ctr";
constexpr std::string_view kToolkit = "openshift-driver-toolkit-ctr";

// For which nodes a DaemonSet is.
struct Target {
  OsRelease os = {};
  std::optional<std::string> kernel = {};         // precompiled
  std::optional<std::string> rhcos_version = {};  // driver toolkit
};

// A sidecar that builds one more kernel module.
struct ModuleSidecar {
  std::string_view container;
  std::string_view image_variable;
  const api::Component& component;
};

Mode ModeOf(const api::ClusterPolicy& policy) {
  if (policy.driver.use_nvidia_driver_crd) return Mode::kDelegated;
  return policy.driver_enabled() ? Mode::kEnabled : Mode::kDisabled;
}

void SetPullPolicyIfGiven(Object& container, const api::ImageSpec& image) {
  if (!image.pull_policy.empty()) container["imagePullPolicy"] = PullPolicy(image.pull_policy);
}

base::Result<std::string> DriverImage(const Context& context, const Target& target) {
  const api::ImageSpec& spec = context.driver().image;
  std::string image;
  if (target.kernel) {
    TRY_ASSIGN(image,
               ResolvePrecompiledImage(spec, kImage, context.images, *target.kernel, target.os));
  } else {
    TRY_ASSIGN(image, ResolveImage(spec, kImage, context.images));
    image = WithOsTag(std::move(image), target.os);
  }
  TRY(RequireReference(spec, image));
  return image;
}

base::Status CustomizeManager(Object& daemonset, const Context& context) {
  const api::Driver& driver = context.driver();
  if (driver.rdma_enabled) {
    TRY_ASSIGN(Object * manager, RequireContainer(daemonset, kManager));
    SetEnv(*manager, "GPU_DIRECT_RDMA_ENABLED", "true");
    if (driver.rdma_use_host_mofed) SetEnv(*manager, "USE_HOST_MOFED", "true");
  }
  return ApplyDriverManager(daemonset, driver.manager, driver.resources, context);
}

void ApplyDriverSwitches(Object& daemonset, Object& container, const Context& context) {
  const api::Driver& driver = context.driver();
  if (!driver.kernel_module_type.empty()) {
    SetEnv(container, "KERNEL_MODULE_TYPE", driver.kernel_module_type);
    if (driver.kernel_module_type == "open") {
      SetEnv(container, "OPEN_KERNEL_MODULES_ENABLED", "true");
    }
  }
  // The manifest has a startup probe only; settings for a probe that is not there have no effect
  // (upstream's operator crashes on them).
  OverrideStartupProbe(container, driver.startup_probe);
  OverrideProbe(container, "livenessProbe", driver.liveness_probe);
  OverrideProbe(container, "readinessProbe", driver.readiness_probe);
  if (context.gdrcopy_enabled()) SetEnv(container, "GDRCOPY_ENABLED", "true");
  if (context.gds_enabled()) SetEnv(container, "GDS_ENABLED", "true");
  if (driver.rdma_enabled) {
    SetEnv(container, "GPU_DIRECT_RDMA_ENABLED", "true");
    if (driver.rdma_use_host_mofed) {
      SetHostPath(daemonset, "mlnx-ofed-usr-src", "/usr/src");
      SetEnv(container, "USE_HOST_MOFED", "true");
    }
  }
}

// Files of a ConfigMap in the folder where the nodes' operating system looks for them.
base::Status MountInSystemFolder(Object& daemonset, Object& container, const Context& context,
                                 std::string_view field, const std::string& config_map,
                                 const base::Result<std::string>& system_folder) {
  if (config_map.empty()) return {};
  std::string folder;
  // Before the first GPU node the system is not known, and nothing will be applied.
  if (context.facts.gpu_nodes > 0) {
    if (!system_folder) return base::Fail(system_folder.error().Within(field));
    folder = *system_folder;
  }
  return MountConfigMapKeys(daemonset, container, context, field, config_map, folder);
}

// Package repositories and certificates of the policy; only drivers that are compiled need them.
base::Status MountBuildFiles(Object& daemonset, Object& container, const Context& context,
                             const OsRelease& os) {
  const api::Driver& driver = context.driver();
  TRY(MountInSystemFolder(daemonset, container, context, driver.path + ".repoConfig.configMapName",
                          driver.repo_config, RepositoryFolder(os.id)));
  TRY(MountInSystemFolder(daemonset, container, context, driver.path + ".certConfig.name",
                          driver.cert_config, CertificateFolder(os.id)));
  return ApplySecretEnv(container, context);
}

base::Status CustomizeDriver(Object& daemonset, std::vector<Object>& others, const Context& context,
                             const Target& target) {
  const api::Driver& driver = context.driver();
  TRY_ASSIGN(Object * container, RequireContainer(daemonset, kDriver));
  TRY_ASSIGN((*container)["image"], DriverImage(context, target));
  (*container)["imagePullPolicy"] = PullPolicy(driver.image.pull_policy);
  AddPullSecrets(daemonset, driver.image.pull_secrets);
  SetResources(*container, driver.resources);
  SetArgs(*container, driver.args);
  ApplyDriverSwitches(daemonset, *container, context);
  MountLicence(daemonset, *container, driver.licensing);
  MountVirtualTopology(daemonset, *container, driver.virtual_topology_config);
  if (!driver.kernel_module_config.empty()) {
    TRY(MountConfigMapKeys(daemonset, *container, context, driver.path + ".kernelModuleConfig.name",
                           driver.kernel_module_config, "/drivers"));
  }
  SetEnv(*container, driver.env);
  if (driver.use_precompiled) {
    if (target.os.id == "sles" || target.os.id == "sl-micro") {
      AddMount(*container,
               {.volume = "lib-modules", .path = "/run/host/lib/modules", .read_only = true});
      SetVolume(daemonset, HostPathVolume("lib-modules", "/lib/modules", "Directory"));
    }
    return {};
  }
  TRY(MountBuildFiles(daemonset, *container, context, target.os));
  MountSubscriptions(daemonset, *container, context, target.os.id);
  if (context.facts.openshift()) {
    SetEnv(*container, "OPENSHIFT_VERSION", context.facts.openshift_version);
    ApplyProxy(daemonset, others, context);
  }
  return {};
}

base::Status CustomizePeermem(Object& daemonset, const Context& context, const Target& target) {
  const api::Driver& driver = context.driver();
  if (!driver.rdma_enabled) {
    RemoveContainer(daemonset, kPeermem);
    return {};
  }
  TRY_ASSIGN(Object * container, RequireContainer(daemonset, kPeermem));
  TRY_ASSIGN((*container)["image"], DriverImage(context, target));
  SetPullPolicyIfGiven(*container, driver.image);
  if (driver.rdma_use_host_mofed) SetEnv(*container, "USE_HOST_MOFED", "true");
  SetResources(*container, driver.resources);
  if (driver.kernel_module_config.empty()) return {};
  return MountConfigMapKeys(daemonset, *container, context,
                            driver.path + ".kernelModuleConfig.name", driver.kernel_module_config,
                            "/drivers");
}

// nvidia-fs and gdrcopy.
base::Status CustomizeSidecar(Object& daemonset, const ModuleSidecar& sidecar,
                              const Context& context, const Target& target) {
  const api::Component& component = sidecar.component;
  if (!component.enabled.value_or(false)) {
    RemoveContainer(daemonset, sidecar.container);
    return {};
  }
  if (context.driver().use_precompiled) {
    return base::Fail(
        base::Invalid("UnsupportedCombination",
                      fmt::format("{}.enabled: not supported together with {}.usePrecompiled",
                                  component.path, context.driver().path)));
  }
  TRY_ASSIGN(Object * container, RequireContainer(daemonset, sidecar.container));
  TRY_ASSIGN(std::string image,
             ResolveImage(component.image, sidecar.image_variable, context.images));
  (*container)["image"] = WithOsTag(std::move(image), target.os);
  SetPullPolicyIfGiven(*container, component.image);
  AddPullSecrets(daemonset, component.image.pull_secrets);
  SetEnv(*container, component.env);
  TRY(MountBuildFiles(daemonset, *container, context, target.os));
  SetResources(*container, context.driver().resources);
  return {};
}

base::Status CustomizeDaemonSet(Object& daemonset, std::vector<Object>& others,
                                const Context& context, const Target& target) {
  TRY(CustomizeManager(daemonset, context));
  TRY(CustomizeDriver(daemonset, others, context, target));
  TRY(CustomizePeermem(daemonset, context, target));
  TRY(CustomizeSidecar(daemonset, {"nvidia-fs-ctr", kGdsImage, context.gds()}, context, target));
  TRY(CustomizeSidecar(daemonset, {"nvidia-gdrcopy-ctr", kGdrcopyImage, context.gdrcopy()}, context,
                       target));
  if (target.rhcos_version) {
    TRY(MakeDriverToolkitVariant(daemonset, *target.rhcos_version, context.driver().resources,
                                 context));
  } else {
    RemoveContainer(daemonset, kToolkit);
  }
  if (target.kernel) MakePrecompiledVariant(daemonset, *target.kernel, target.os);

  const std::string digest = DriverConfigDigest(daemonset);
  for (const std::string_view name : {kManager, kDriver, kToolkit}) {
    if (Object* container = FindContainer(daemonset, name)) {
      SetEnv(*container, "DRIVER_CONFIG_DIGEST", digest);
    }
  }
  ApplyDriverContent(daemonset, NameOf(daemonset), context);
  if (context.driver().host_network) UseHostNetwork(daemonset);
  return {};
}

base::Result<std::vector<Target>> TargetsOf(const Context& context) {
  if (context.driver().use_precompiled) {
    const auto& kernels = context.facts.kernels;
    if (!kernels)
      return base::Fail(kernels.error().Within(context.driver().path + ".usePrecompiled"));
    std::vector<Target> targets;
    for (const auto& [kernel, os] : *kernels) targets.push_back({.os = os, .kernel = kernel});
    return targets;
  }
  // Without GPU nodes there is no operating system, and nothing will be applied; the policy is
  // still checked.
  OsRelease os;
  if (context.facts.os) {
    TRY_ASSIGN(os, *context.facts.os);
  }
  if (!UsesDriverToolkit(context)) return std::vector<Target>{{.os = os}};
  std::vector<Target> targets;
  targets.reserve(context.facts.rhcos_versions.size());
  for (const std::string& version : context.facts.rhcos_versions) {
    targets.push_back({.os = os, .rhcos_version = version});
  }
  return targets;
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  if (context.driver_spec != nullptr) return CustomizeDriverObject(objects, context);
  TRY_ASSIGN(Object * manifest, RequireDaemonSet(objects));
  const Object base = std::move(*manifest);
  std::erase_if(objects, [&](const Object& object) { return &object == manifest; });
  TRY_ASSIGN(const std::vector<Target> targets, TargetsOf(context));
  std::vector<Object> daemonsets;
  for (const Target& target : targets) {
    Object daemonset = base;
    TRY(CustomizeDaemonSet(daemonset, objects, context, target));
    daemonsets.push_back(std::move(daemonset));
  }
  for (Object& daemonset : daemonsets) objects.push_back(std::move(daemonset));
  return {};
}

}  // namespace

Operand DriverOperand() {
  return {.state = kDriverState,
          .condition = "DriverReady",
          .title = "driver",
          .name = "driver",
          .daemonsets = {api::kDriverDaemonSet},
          .delegated_daemonsets = "nvidia-gpu-driver-",
          .deploy = {.key = api::kDeployDriver, .workloads = kContainers},
          .stage = Stage::kDriver,
          .rank_in_stage = -2,
          .owns_gpus = true,
          .images = {kImage, kDriverManagerImage, kGdsImage, kGdrcopyImage},
          .blocks = {"spec.driver", "spec.gds", "spec.gdrcopy"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
