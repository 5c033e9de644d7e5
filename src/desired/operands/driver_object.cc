#include "desired/operands/driver_object.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "api/labels.h"
#include "desired/daemonset.h"
#include "desired/image_reference.h"
#include "desired/operands/driver_content.h"
#include "desired/operands/driver_digest.h"
#include "desired/operands/driver_files.h"
#include "desired/operands/driver_manager.h"
#include "desired/operands/driver_variant.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kManager = "k8s-driver-manager";
constexpr std::string_view kDriver = "nvidia-driver-ctr";
constexpr std::string_view kPeermem = "nvidia-peermem-ctr";
constexpr std::string_view kFs = "nvidia-fs-ctr";
constexpr std::string_view kGdrcopy = "nvidia-gdrcopy-ctr";
constexpr std::string_view kToolkit = "openshift-driver-toolkit-ctr";
// OpenShift fills in the content; one for each driver, because an object has one controller.
constexpr std::string_view kTrustedCa = "gpu-operator-trusted-ca";
constexpr std::string_view kOwnTrustedCa = "nvidia-driver-trusted-ca";

bool IsVgpuHost(const DriverSpec& spec) { return spec.type == api::kDriverTypeVgpuHost; }

base::Error InvalidImage(const api::ImageSpec& image, std::string_view member,
                         std::string_view what) {
  return base::Invalid("InvalidImage", fmt::format("{}.{}: {}", image.path, member, what));
}

// Where the image's name must have a tag, and where it must not (clusterpolicy-api.md #27).
base::Status CheckParts(const api::ImageSpec& image) {
  const std::string_view last = std::string_view(image.image).substr(image.image.rfind('/') + 1);
  const bool tagged = last.contains(':') || last.contains('@');
  const bool alone = image.repository.empty() && image.version.empty();
  if (alone && !tagged) {
    return base::Fail(InvalidImage(
        image, "version",
        fmt::format("missing: set {0}.repository, {0}.image and {0}.version, or give {0}.image a "
                    "tag (\"{1}\" has none)",
                    image.path, image.image)));
  }
  if (!alone && tagged) {
    return base::Fail(InvalidImage(
        image, "image",
        fmt::format("\"{}\" has a tag already; {}.version says which one", last, image.path)));
  }
  for (const auto& [member, text] :
       {std::pair("repository", &image.repository), std::pair("image", &image.image),
        std::pair("version", &image.version)}) {
    constexpr std::string_view kAllowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@";
    if (const std::size_t wrong = text->find_first_not_of(kAllowed); wrong != std::string::npos) {
      return base::Fail(
          InvalidImage(image, member,
                       fmt::format("\"{}\" is no part of an image reference: it contains \"{}\"",
                                   *text, (*text)[wrong])));
    }
  }
  return {};
}

// There is no default image: what runs is what the object says.
base::Result<std::string> ImageOf(const api::ImageSpec& image, const DriverPool& pool) {
  TRY(CheckParts(image));
  std::string reference;
  if (pool.kernel.empty()) {
    TRY_ASSIGN(reference, ResolveImage(image, "", {}));
    reference = WithOsTag(std::move(reference), pool.os);
  } else {
    TRY_ASSIGN(reference, ResolvePrecompiledImage(image, "", {}, pool.kernel, pool.os));
  }
  TRY(RequireReference(image, reference));
  return reference;
}

// Everything that the driver's description puts into the pod as files, in upstream's order.
base::Status MountFiles(DriverObjectParts& parts, const Context& context) {
  const api::Driver& driver = context.driver();
  const std::string& os_id = context.driver_spec->pool.os.id;
  const auto mount = [&](std::string_view member, const std::string& config_map,
                         const base::Result<std::string>& folder) -> base::Status {
    if (config_map.empty()) return {};
    const std::string field = fmt::format("{}.{}.name", driver.path, member);
    if (!folder) return base::Fail(folder.error().Within(field));
    return MountConfigMapKeys(parts.volumes, parts.mounts, context, field, config_map, *folder);
  };
  if (!driver.use_precompiled) {
    TRY(mount("repoConfig", driver.repo_config, RepositoryFolder(os_id)));
    TRY(mount("certConfig", driver.cert_config, CertificateFolder(os_id)));
    MountSubscriptions(parts.volumes, parts.mounts, context, os_id);
  } else if (os_id == "sles" || os_id == "sl-micro") {
    AddMount(parts.mounts,
             {.volume = "lib-modules", .path = "/run/host/lib/modules", .read_only = true});
    SetVolume(parts.volumes, HostPathVolume("lib-modules", "/lib/modules", "Directory"));
  }
  TRY(mount("kernelModuleConfig", driver.kernel_module_config, std::string("/drivers")));
  MountLicence(parts.volumes, parts.mounts, driver.licensing);
  MountVirtualTopology(parts.volumes, parts.mounts, driver.virtual_topology_config);
  return {};
}

base::Result<DriverObjectParts> PartsOf(const Context& context) {
  const DriverPool& pool = context.driver_spec->pool;
  DriverObjectParts parts;
  TRY_ASSIGN(parts.driver_image, ImageOf(context.driver().image, pool));
  parts.manager_image = context.driver_spec->manager_image;
  if (parts.manager_image.empty()) {
    TRY_ASSIGN(parts.manager_image,
               ResolveImage(context.driver().manager.image, kDriverManagerImage, context.images));
  }
  if (context.gds_enabled()) {
    TRY_ASSIGN(parts.gds_image, ImageOf(context.gds().image, pool));
  }
  if (context.gdrcopy_enabled()) {
    TRY_ASSIGN(parts.gdrcopy_image, ImageOf(context.gdrcopy().image, pool));
  }
  parts.toolkit = UsesDriverToolkit(context);
  const auto& toolkits = context.facts.driver_toolkit.images;
  if (const auto image = toolkits.find(pool.rhcos_version); image != toolkits.end()) {
    parts.toolkit_image = image->second;
  }
  TRY(MountFiles(parts, context));
  return parts;
}

void AddFiles(Object& container, const DriverObjectParts& parts) {
  const auto mounts = parts.mounts.find("volumeMounts");
  if (mounts == parts.mounts.end()) return;
  for (const Object& mount : *mounts) {
    AddMount(container, {.volume = NameOf(mount),
                         .path = codec::FindString(mount, {"mountPath"}),
                         .read_only = mount.value("readOnly", false),
                         .sub_path = codec::FindString(mount, {"subPath"})});
  }
}

// Labels, neighbours, root of the host.
void DescribePool(Object& daemonset, const DriverSpec& spec) {
  const auto label = [&](std::string_view key, std::string_view value) {
    SetLabel(daemonset, key, value);
    SetLabel(PodTemplate(daemonset), key, value);
  };
  label(api::kComponentLabel, IsVgpuHost(spec) ? api::kVgpuHostComponent : api::kDriverComponent);
  label(api::kNodeOsVersion, spec.pool.os.tag());
  label(api::kPrecompiled, spec.driver.use_precompiled ? "true" : "false");
  if (!spec.pool.kernel.empty()) {
    label(api::kPrecompiledKernel, SanitizeKernelVersion(spec.pool.kernel));
  }
  for (Object& term : PodSpec(daemonset)["affinity"]["podAntiAffinity"]
                                        ["requiredDuringSchedulingIgnoredDuringExecution"]) {
    for (Object& expression : term["labelSelector"]["matchExpressions"]) {
      if (expression["key"] == api::kComponentLabel) {
        expression["values"].push_back("nvidia-vgpu-manager");
      }
    }
  }
  if (!spec.host_root.empty()) SetHostPath(daemonset, "host-root", spec.host_root);
}

// A driver that shares its GPUs between virtual machines: no container waits for it, and it needs
// what the machines' devices are made with.
void MakeVgpuHost(Object& daemonset) {
  Object& pod = PodSpec(daemonset);
  pod["terminationGracePeriodSeconds"] = 120;
  pod["nodeSelector"].erase(std::string(api::kDeployDriver));
  SetNodeSelector(daemonset, api::kDeployVgpuManager, "true");
  Object& driver = *FindContainer(daemonset, kDriver);
  driver.erase("startupProbe");
  driver.erase("lifecycle");
  AddMount(driver, {.volume = "cgroup", .path = "/sys/fs/cgroup"});
  AddMount(driver, {.volume = "vfio", .path = "/dev/vfio"});
  SetVolume(daemonset, HostPathVolume("cgroup", "/sys/fs/cgroup"));
  SetVolume(daemonset, HostPathVolume("vfio", "/dev/vfio"));
}

base::Status CustomizeManager(Object& daemonset, const Context& context,
                              const DriverObjectParts& parts, const std::string& digest) {
  const api::Driver& driver = context.driver();
  TRY_ASSIGN(Object * manager, RequireContainer(daemonset, kManager));
  SetEnv(*manager, "DRIVER_CONFIG_DIGEST", digest);
  if (driver.rdma_enabled) {
    SetEnv(*manager, "GPU_DIRECT_RDMA_ENABLED", "true");
    if (driver.rdma_use_host_mofed) SetEnv(*manager, "USE_HOST_MOFED", "true");
  }
  TRY(ApplyDriverManager(daemonset, driver.manager, driver.resources, context));
  (*manager)["image"] = parts.manager_image;
  return {};
}

// In upstream's order, which is that of precedence: what comes later wins.
void SetDriverEnv(Object& container, const Context& context, const std::string& digest,
                  bool toolkit) {
  const api::Driver& driver = context.driver();
  container["env"].insert(container["env"].begin(),
                          Object{{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "void"}});
  SetEnv(container, "DRIVER_CONFIG_DIGEST", digest);
  if (!driver.kernel_module_type.empty()) {
    SetEnv(container, "KERNEL_MODULE_TYPE", driver.kernel_module_type);
    if (driver.kernel_module_type == "open") {
      SetEnv(container, "OPEN_KERNEL_MODULES_ENABLED", "true");
    }
  }
  if (context.gds_enabled()) SetEnv(container, "GDS_ENABLED", "true");
  if (context.gdrcopy_enabled()) SetEnv(container, "GDRCOPY_ENABLED", "true");
  if (toolkit) SetEnv(container, "OPENSHIFT_VERSION", context.facts.openshift_version);
  SetEnv(container, driver.env);
  if (driver.rdma_enabled) {
    SetEnv(container, "GPU_DIRECT_RDMA_ENABLED", "true");
    if (driver.rdma_use_host_mofed) SetEnv(container, "USE_HOST_MOFED", "true");
  }
}

base::Status CustomizeDriver(Object& daemonset, const Context& context,
                             const DriverObjectParts& parts, const std::string& digest) {
  const api::Driver& driver = context.driver();
  TRY_ASSIGN(Object * container, RequireContainer(daemonset, kDriver));
  (*container)["image"] = parts.driver_image;
  (*container)["imagePullPolicy"] = PullPolicy(driver.image.pull_policy);
  SetResources(*container, driver.resources);
  for (const std::string& argument : driver.args) (*container)["args"].push_back(argument);
  SetDriverEnv(*container, context, digest, parts.toolkit);
  if (driver.rdma_use_host_mofed) SetHostPath(daemonset, "mlnx-ofed-usr-src", "/usr/src");
  if (container->contains("startupProbe")) OverrideStartupProbe(*container, driver.startup_probe);
  AddFiles(*container, parts);
  return ApplySecretEnv(*container, context);
}

base::Status CustomizePeermem(Object& daemonset, const Context& context,
                              const DriverObjectParts& parts) {
  const api::Driver& driver = context.driver();
  if (!driver.rdma_enabled) {
    RemoveContainer(daemonset, kPeermem);
    return {};
  }
  TRY_ASSIGN(Object * container, RequireContainer(daemonset, kPeermem));
  (*container)["image"] = parts.driver_image;
  (*container)["imagePullPolicy"] = PullPolicy(driver.image.pull_policy);
  SetEnv(*container, "NVIDIA_VISIBLE_DEVICES", "void");
  if (driver.rdma_use_host_mofed) SetEnv(*container, "USE_HOST_MOFED", "true");
  SetResources(*container, driver.resources);
  AddFiles(*container, parts);
  return {};
}

// nvidia-fs and gdrcopy.
base::Status CustomizeSidecar(Object& daemonset, std::string_view name,
                              const api::Component& component, const std::string& image,
                              const Context& context, const DriverObjectParts& parts) {
  if (image.empty()) {
    RemoveContainer(daemonset, name);
    return {};
  }
  TRY_ASSIGN(Object * container, RequireContainer(daemonset, name));
  (*container)["image"] = image;
  (*container)["imagePullPolicy"] = PullPolicy(component.image.pull_policy);
  SetEnv(*container, component.env);
  SetResources(*container, context.driver().resources);
  AddFiles(*container, parts);
  return ApplySecretEnv(*container, context);
}

// The container that builds the modules in OpenShift's toolkit image, and its cluster-wide proxy.
base::Status CustomizeForOpenShift(Object& daemonset, std::vector<Object>& others,
                                   const Context& context, const DriverObjectParts& parts,
                                   const std::string& digest) {
  if (!parts.toolkit) {
    RemoveContainer(daemonset, kToolkit);
    return {};
  }
  TRY_ASSIGN(Object * toolkit, RequireContainer(daemonset, kToolkit));
  SetEnv(*toolkit, "DRIVER_CONFIG_DIGEST", digest);
  AddMount(*toolkit, {.volume = "firmware-search-path",
                      .path = "/sys/module/firmware_class/parameters/path"});
  AddMount(*toolkit, {.volume = "nv-firmware", .path = "/lib/firmware"});
  TRY(MakeDriverToolkitVariant(daemonset, context.driver_spec->pool.rhcos_version,
                               context.driver().resources, context));
  ApplyProxy(daemonset, others, context);
  if (Object* config_map = FindObject(others, "ConfigMap", kTrustedCa)) {
    (*config_map)["metadata"]["name"] = kOwnTrustedCa;
    (*FindVolume(daemonset, kTrustedCa))["configMap"]["name"] = kOwnTrustedCa;
  }
  return {};
}

}  // namespace

base::Status CustomizeDriverObject(std::vector<Object>& objects, const Context& context) {
  TRY_ASSIGN(Object * manifest, RequireDaemonSet(objects));
  Object daemonset = std::move(*manifest);
  std::erase_if(objects, [&](const Object& object) { return &object == manifest; });
  const DriverSpec& spec = *context.driver_spec;
  TRY_ASSIGN(const DriverObjectParts parts, PartsOf(context));
  const std::string digest = DriverObjectDigest(parts, context);

  DescribePool(daemonset, spec);
  if (IsVgpuHost(spec)) MakeVgpuHost(daemonset);
  AddPullSecrets(daemonset, spec.driver.image.pull_secrets);
  TRY(CustomizeManager(daemonset, context, parts, digest));
  TRY(CustomizeDriver(daemonset, context, parts, digest));
  TRY(CustomizePeermem(daemonset, context, parts));
  TRY(CustomizeSidecar(daemonset, kFs, spec.gds, parts.gds_image, context, parts));
  TRY(CustomizeSidecar(daemonset, kGdrcopy, spec.gdrcopy, parts.gdrcopy_image, context, parts));
  if (context.gds_enabled()) AddPullSecrets(daemonset, spec.gds.image.pull_secrets);
  if (context.gdrcopy_enabled()) AddPullSecrets(daemonset, spec.gdrcopy.image.pull_secrets);
  if (const Object* pod = codec::Find(parts.volumes, {"spec", "template", "spec"});
      pod != nullptr && pod->contains("volumes")) {
    for (const Object& volume : (*pod)["volumes"]) SetVolume(daemonset, volume);
  }
  TRY(CustomizeForOpenShift(daemonset, objects, context, parts, digest));
  if (context.placement) ApplyDriverContent(daemonset, context.placement->daemonset, context);
  if (spec.driver.host_network) UseHostNetwork(daemonset);
  objects.push_back(std::move(daemonset));
  return {};
}

}  // namespace pitcrew::desired
