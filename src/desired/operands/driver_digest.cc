#include "desired/operands/driver_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

// Field name to the dump of its value; only fields that are not empty are here.
using Fields = std::map<std::string, std::string>;

void AddString(Fields& fields, const std::string& name, const std::string& value) {
  if (!value.empty()) fields[name] = "(string)" + value;
}

void AddFlag(Fields& fields, const std::string& name) { fields[name] = "(bool)true"; }

void AddList(Fields& fields, const std::string& name, std::string_view type,
             const std::vector<std::string>& items) {
  if (!items.empty()) fields[name] = fmt::format("({})[{}]", type, base::Join(items, " "));
}

std::string Text(const Object& object, std::string_view member) {
  return codec::FindString(object, {member});
}

std::vector<std::string> Strings(const Object& container, std::string_view member) {
  const auto found = container.find(member);
  return found == container.end() ? std::vector<std::string>{}
                                  : found->get<std::vector<std::string>>();
}

// Variables with a literal value, by name.
std::vector<std::string> DumpEnv(const Object& container) {
  std::map<std::string, std::string> variables;
  if (const auto env = container.find("env"); env != container.end()) {
    for (const Object& variable : *env) {
      if (!variable.contains("valueFrom")) variables[NameOf(variable)] = Text(variable, "value");
    }
  }
  std::vector<std::string> dump;
  for (const auto& [name, value] : variables) {
    dump.push_back(fmt::format("{{Name:(string){} Value:(string){}}}", name, value));
  }
  return dump;
}

std::vector<std::string> DumpMounts(const Object& container) {
  std::vector<const Object*> mounts;
  if (const auto found = container.find("volumeMounts"); found != container.end()) {
    for (const Object& mount : *found) mounts.push_back(&mount);
  }
  std::ranges::sort(mounts, {}, [](const Object* mount) {
    return std::pair(NameOf(*mount), Text(*mount, "mountPath"));
  });
  std::vector<std::string> dump;
  for (const Object* mount : mounts) {
    dump.push_back(
        fmt::format("{{Name:(string){} MountPath:(string){} SubPath:(string){} ReadOnly:(bool){}}}",
                    NameOf(*mount), Text(*mount, "mountPath"), Text(*mount, "subPath"),
                    mount->value("readOnly", false)));
  }
  return dump;
}

const Object* Find(const Object& pod, std::string_view list, std::string_view name) {
  const auto found = pod.find(list);
  if (found == pod.end()) return nullptr;
  for (const Object& item : *found) {
    if (NameOf(item) == name) return &item;
  }
  return nullptr;
}

std::vector<std::string> DumpVolumes(const Object& pod) {
  std::vector<const Object*> volumes;
  if (const auto found = pod.find("volumes"); found != pod.end()) {
    for (const Object& volume : *found) volumes.push_back(&volume);
  }
  std::ranges::sort(volumes, {}, [](const Object* volume) { return NameOf(*volume); });
  std::vector<std::string> dump;
  for (const Object* volume : volumes) {
    dump.push_back(fmt::format(
        "{{Name:(string){} ConfigMapName:(string){} SecretName:(string){} HostPath:(string){}}}",
        NameOf(*volume), codec::FindString(*volume, {"configMap", "name"}),
        codec::FindString(*volume, {"secret", "secretName"}),
        codec::FindString(*volume, {"hostPath", "path"})));
  }
  return dump;
}

void AddDriverContainer(Fields& fields, const Object& driver) {
  AddString(fields, "DriverImage", Text(driver, "image"));
  AddList(fields, "DriverCommand", "[]string", Strings(driver, "command"));
  AddList(fields, "DriverArgs", "[]string", Strings(driver, "args"));
  AddList(fields, "DriverEnv", "[]config.EnvVar", DumpEnv(driver));
  AddList(fields, "AdditionalVolumeMounts", "[]config.VolumeMountConfig", DumpMounts(driver));
  if (const auto sources = driver.find("envFrom"); sources != driver.end()) {
    for (const Object& source : *sources) {
      const std::string secret = codec::FindString(source, {"secretRef", "name"});
      if (!secret.empty()) AddString(fields, "SecretEnvSource", secret);
    }
  }
}

// A container whose presence switches a feature on.
void AddSidecar(Fields& fields, const Object& pod, std::string_view container,
                const std::string& image_field, const std::string& flag_field,
                const std::string& env_field) {
  const Object* sidecar = Find(pod, "containers", container);
  if (sidecar == nullptr) return;
  AddString(fields, image_field, Text(*sidecar, "image"));
  AddFlag(fields, flag_field);
  if (!env_field.empty()) AddList(fields, env_field, "[]config.EnvVar", DumpEnv(*sidecar));
}

std::string DigestOf(const Fields& fields) {
  std::string text;
  for (const auto& [name, dump] : fields) text += name + ":" + dump;
  return std::to_string(base::HashFnv1a32(text));
}

void AddEnv(Fields& fields, const std::string& name, std::vector<api::EnvVar> variables) {
  std::ranges::stable_sort(variables, {}, &api::EnvVar::name);
  std::vector<std::string> dump;
  for (const api::EnvVar& variable : variables) {
    dump.push_back(
        fmt::format("{{Name:(string){} Value:(string){}}}", variable.name, variable.value));
  }
  AddList(fields, name, "[]config.EnvVar", dump);
}

// What the driver's description says itself.
void AddDriverSpec(Fields& fields, const DriverSpec& spec) {
  const api::Driver& driver = spec.driver;
  AddString(fields, "DriverType", spec.type);
  AddString(fields, "KernelModuleType", driver.kernel_module_type);
  AddList(fields, "DriverArgs", "[]string", driver.args);
  AddEnv(fields, "DriverEnv", driver.env);
  AddEnv(fields, "ManagerEnv", driver.manager.env);
  AddString(fields, "SecretEnvSource", driver.secret_env);
  AddString(fields, "LicensingConfigName", driver.licensing.secret_name);
  AddString(fields, "VirtualTopologyConfig", driver.virtual_topology_config);
  AddString(fields, "KernelModuleConfig", driver.kernel_module_config);
  AddString(fields, "RepoConfig", driver.repo_config);
  AddString(fields, "CertConfig", driver.cert_config);
  AddString(fields, "HostRoot", spec.host_root);
  if (driver.rdma_enabled && driver.rdma_use_host_mofed) AddFlag(fields, "UseHostMOFED");
  if (!spec.pool.kernel.empty()) {
    AddFlag(fields, "UsePrecompiled");
    AddString(fields, "KernelVersion", spec.pool.kernel);
  }
}

void AddOpenShift(Fields& fields, const DriverObjectParts& parts, const Context& context) {
  AddString(fields, "OpenshiftVersion", context.facts.openshift_version);
  if (context.facts.proxy && !context.driver().use_precompiled) {
    const Proxy& proxy = *context.facts.proxy;
    AddString(fields, "HTTPProxy", proxy.http);
    AddString(fields, "HTTPSProxy", proxy.https);
    AddString(fields, "NoProxy", proxy.none);
    AddString(fields, "TrustedCAConfigMapName", proxy.trusted_ca);
  }
  if (!parts.toolkit) return;
  AddFlag(fields, "DTKEnabled");
  AddString(fields, "DTKImage", parts.toolkit_image);
  AddString(fields, "RHCOSVersion", context.driver_spec->pool.rhcos_version);
}

}  // namespace

std::string DriverObjectDigest(const DriverObjectParts& parts, const Context& context) {
  Fields fields;
  AddDriverSpec(fields, *context.driver_spec);
  AddOpenShift(fields, parts, context);
  AddString(fields, "DriverImage", parts.driver_image);
  AddString(fields, "DriverManagerImage", parts.manager_image);
  if (context.driver().rdma_enabled) {
    AddFlag(fields, "GPUDirectRDMAEnabled");
    AddString(fields, "PeermemImage", parts.driver_image);
  }
  if (context.gds_enabled()) {
    AddFlag(fields, "GDSEnabled");
    AddString(fields, "GDSImage", parts.gds_image);
    AddEnv(fields, "GDSEnv", context.gds().env);
  }
  if (context.gdrcopy_enabled()) {
    AddFlag(fields, "GDRCopyEnabled");
    AddString(fields, "GDRCopyImage", parts.gdrcopy_image);
    AddEnv(fields, "GDRCopyEnv", context.gdrcopy().env);
  }
  AddList(fields, "AdditionalVolumeMounts", "[]config.VolumeMountConfig", DumpMounts(parts.mounts));
  if (const Object* pod = codec::Find(parts.volumes, {"spec", "template", "spec"})) {
    AddList(fields, "AdditionalVolumes", "[]config.VolumeConfig", DumpVolumes(*pod));
  }
  return DigestOf(fields);
}

std::string DriverConfigDigest(const Object& daemonset) {
  const Object* pod = codec::Find(daemonset, {"spec", "template", "spec"});
  if (pod == nullptr) return "";
  Fields fields;
  if (const Object* manager = Find(*pod, "initContainers", "k8s-driver-manager")) {
    AddString(fields, "DriverManagerImage", Text(*manager, "image"));
    AddList(fields, "ManagerEnv", "[]config.EnvVar", DumpEnv(*manager));
  }
  if (const Object* driver = Find(*pod, "containers", "nvidia-driver-ctr")) {
    AddDriverContainer(fields, *driver);
  }
  AddSidecar(fields, *pod, "nvidia-peermem-ctr", "PeermemImage", "GPUDirectRDMAEnabled", "");
  AddSidecar(fields, *pod, "nvidia-fs-ctr", "GDSImage", "GDSEnabled", "GDSEnv");
  AddSidecar(fields, *pod, "nvidia-gdrcopy-ctr", "GDRCopyImage", "GDRCopyEnabled", "GDRCopyEnv");
  AddSidecar(fields, *pod, "openshift-driver-toolkit-ctr", "DTKImage", "DTKEnabled", "");
  AddList(fields, "AdditionalVolumes", "[]config.VolumeConfig", DumpVolumes(*pod));
  if (const Object* root = Find(*pod, "volumes", "host-root")) {
    AddString(fields, "HostRoot", codec::FindString(*root, {"hostPath", "path"}));
  }
  return DigestOf(fields);
}

}  // namespace pitcrew::desired
