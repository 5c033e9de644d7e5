// Container toolkit and its wiring to the container runtime (reference operand-manifests.md
// section 7).
#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/daemonset.h"
#include "desired/host_path.h"
#include "desired/node_labels.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "CONTAINER_TOOLKIT_IMAGE";
constexpr std::string_view kContainer = "nvidia-container-toolkit-ctr";

// Where a runtime keeps what the toolkit needs, and by which variables the toolkit is told.
struct RuntimeFiles {
  std::string_view prefix;   // of variables: CONTAINERD_CONFIG, CONTAINERD_SOCKET
  std::string_view volume;   // of volumes: containerd-config
  std::string_view config;   // default path of the main configuration
  std::string_view drop_in;  // "": the runtime has none
  std::string_view socket;   // "": the toolkit does not need it
};

RuntimeFiles FilesOf(Runtime runtime) {
  switch (runtime) {
    case Runtime::kContainerd:
      return {"CONTAINERD", "containerd", "/etc/containerd/config.toml",
              "/etc/containerd/conf.d/99-nvidia.toml", "/run/containerd/containerd.sock"};
    case Runtime::kCrio:
      return {"CRIO", "crio", "/etc/crio/config.toml", "/etc/crio/crio.conf.d/99-nvidia.conf", ""};
    case Runtime::kDocker:
      return {"DOCKER", "docker", "/etc/docker/daemon.json", "", "/var/run/docker.sock"};
  }
  return {};
}

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.toolkit_enabled() ? Mode::kEnabled : Mode::kDisabled;
}

// "true", or the name of the node's runtime where that one has a toolkit of its own: a value that
// the driver manager pauses and resumes, and that upstream's operator would keep.
std::string_view LabelValue(const Node& node, const NodePolicy& policy) {
  const auto runtime = RuntimeOf(node.runtime);
  if (!policy.main_runtime || !runtime || *runtime == *policy.main_runtime) return "true";
  return ToString(*runtime);
}

bool NamesRuntime(std::string_view text) { return RuntimeNamed(text).has_value(); }

// The first of `names` that the container sets to something, else `fallback`.
std::string FirstEnv(const Object& container, std::initializer_list<std::string> names,
                     std::string_view fallback) {
  for (const std::string& name : names) {
    if (auto value = FindEnv(container, name); value && !value->empty()) return *std::move(value);
  }
  return std::string(fallback);
}

// RUNTIME_CONFIG_SOURCE: "file=/etc/x,command": files are read through the host's root.
void MapConfigSource(Object& main) {
  const auto source = FindEnv(main, "RUNTIME_CONFIG_SOURCE");
  if (!source || source->empty()) return;
  std::vector<std::string> pieces = base::Split(*source, ',');
  for (std::string& piece : pieces) {
    if (!piece.starts_with("file=")) continue;
    piece = "file=" + JoinPath("/host", piece.substr(5));
  }
  SetEnv(main, "RUNTIME_CONFIG_SOURCE", base::Join(pieces, ","));
}

void MountFolder(Object& daemonset, Object& main, const std::string& volume, std::string_view path,
                 const std::string& host_folder, std::string_view type) {
  AddMount(main, {.volume = volume, .path = std::string(path)});
  SetVolume(daemonset, HostPathVolume(volume, host_folder, type));
}

void WireNri(Object& daemonset, Object& main) {
  const std::string socket = FirstEnv(main, {"NRI_SOCKET"}, "/var/run/nri/nri.sock");
  SetEnv(main, "NRI_SOCKET", JoinPath("/runtime/nri-sock-dir", FileNameOf(socket)));
  MountFolder(daemonset, main, "nri-socket", "/runtime/nri-sock-dir/", FolderOf(socket),
              "DirectoryOrCreate");
}

// The toolkit looks at its node for what nobody chose (a distribution has its own files), and
// cannot tell it from the variables: they are always set.
void TellDefaults(Object& main, const RuntimeFiles& files) {
  std::vector<std::string> defaults;
  const auto is_default = [&](std::initializer_list<std::string> names) {
    return FirstEnv(main, names, "").empty();
  };
  if (is_default({fmt::format("{}_CONFIG", files.prefix), "RUNTIME_CONFIG"})) {
    defaults.emplace_back("config");
  }
  if (is_default({"RUNTIME_DROP_IN_CONFIG"})) defaults.emplace_back("drop-in-config");
  if (is_default({fmt::format("{}_SOCKET", files.prefix)})) defaults.emplace_back("socket");
  if (defaults.empty()) return;
  SetEnv(main, "RUNTIME_SETTINGS_BY_DEFAULT", base::Join(defaults, ","));
}

void WireConfig(Object& daemonset, Object& main, const RuntimeFiles& files) {
  const std::string own_config = fmt::format("{}_CONFIG", files.prefix);
  const std::string config = FirstEnv(main, {own_config, "RUNTIME_CONFIG"}, files.config);
  SetEnv(main, "RUNTIME_CONFIG", "/runtime/config-dir/" + FileNameOf(config));
  SetEnv(main, own_config, "/runtime/config-dir/" + FileNameOf(config));
  MountFolder(daemonset, main, fmt::format("{}-config", files.volume), "/runtime/config-dir/",
              FolderOf(config), "DirectoryOrCreate");
  if (files.drop_in.empty()) return;
  const std::string drop_in = FirstEnv(main, {"RUNTIME_DROP_IN_CONFIG"}, files.drop_in);
  SetEnv(main, "RUNTIME_DROP_IN_CONFIG", "/runtime/config-dir.d/" + FileNameOf(drop_in));
  SetEnv(main, "RUNTIME_DROP_IN_CONFIG_HOST_PATH", drop_in);
  MountFolder(daemonset, main, fmt::format("{}-drop-in-config", files.volume),
              "/runtime/config-dir.d/", FolderOf(drop_in), "DirectoryOrCreate");
}

void WireSocket(Object& daemonset, Object& main, const RuntimeFiles& files) {
  if (files.socket.empty()) return;
  const std::string own_socket = fmt::format("{}_SOCKET", files.prefix);
  const std::string socket = FirstEnv(main, {own_socket}, files.socket);
  SetEnv(main, "RUNTIME_SOCKET", "/runtime/sock-dir/" + FileNameOf(socket));
  SetEnv(main, own_socket, "/runtime/sock-dir/" + FileNameOf(socket));
  MountFolder(daemonset, main, fmt::format("{}-socket", files.volume), "/runtime/sock-dir/",
              FolderOf(socket), "");
}

void WireRuntime(Object& daemonset, Object& main, Runtime runtime, const Context& context) {
  SetEnv(main, "RUNTIME", ToString(runtime));
  if (context.policy.cdi.nri_plugin_enabled) {
    WireNri(daemonset, main);
    return;
  }
  if (runtime == Runtime::kContainerd) {
    const std::string& runtime_class = context.policy.operator_settings.runtime_class;
    SetEnv(main, "CONTAINERD_RUNTIME_CLASS", runtime_class.empty() ? "nvidia" : runtime_class);
  }
  const RuntimeFiles files = FilesOf(runtime);
  if (runtime == Runtime::kContainerd) TellDefaults(main, files);
  WireConfig(daemonset, main, files);
  MapConfigSource(main);
  WireSocket(daemonset, main, files);
}

void ApplyCdi(Object& main, Runtime runtime, const Context& context) {
  if (context.policy.cdi.enabled) {
    SetEnv(main, "CDI_ENABLED", "true");
    SetEnv(main, "NVIDIA_RUNTIME_SET_AS_DEFAULT", "false");
    SetEnv(main, "NVIDIA_CONTAINER_RUNTIME_MODE", "cdi");
    SetEnv(main, "CRIO_CONFIG_MODE", "config");
    if (context.policy.cdi.nri_plugin_enabled) SetEnv(main, "ENABLE_NRI_PLUGIN", "true");
  } else if (runtime == Runtime::kCrio) {
    // Operand pods name the runtime class where CRI-O is not the main runtime (daemonset.cc): then
    // CRI-O has to know it too.
    const bool classless = context.facts.runtime() == Runtime::kCrio;
    SetEnv(main, "CRIO_CONFIG_MODE", classless ? "hook" : "config");
  }
}

// A runtime beside the main one: a DaemonSet of its own, for nodes whose deploy label names it.
void MakeRuntimeVariant(Object& daemonset, Runtime runtime) {
  const std::string name = ToolkitDaemonSetName(runtime);
  daemonset["metadata"]["name"] = name;
  SetLabel(daemonset, api::kAppLabel, name);
  SetLabel(PodTemplate(daemonset), api::kAppLabel, name);
  daemonset["spec"]["selector"]["matchLabels"][std::string(api::kAppLabel)] = name;
  SetNodeSelector(daemonset, api::kDeployContainerToolkit, ToString(runtime));
}

// Variables of the policy that name files of "the" runtime mean the main one.
std::vector<api::EnvVar> EnvironmentFor(const api::Toolkit& toolkit, bool main_runtime) {
  std::vector<api::EnvVar> variables = toolkit.env;
  if (main_runtime) return variables;
  std::erase_if(variables, [](const api::EnvVar& variable) {
    return variable.name == "RUNTIME" || variable.name == "RUNTIME_CONFIG" ||
           variable.name == "RUNTIME_CONFIG_SOURCE" || variable.name == "RUNTIME_DROP_IN_CONFIG";
  });
  return variables;
}

base::Status CustomizeFor(Runtime runtime, Object& daemonset, const Context& context) {
  const api::Toolkit& toolkit = context.policy.toolkit;
  const bool main_runtime = runtime == context.facts.runtime();
  if (!main_runtime) MakeRuntimeVariant(daemonset, runtime);
  TRY(ApplyValidationInitContainers(daemonset, context));
  // The toolkit has no args of the policy: spec.toolkit.args is accepted and has no effect.
  api::Component component = toolkit;
  component.args.clear();
  TRY(ApplyComponent(daemonset, kContainer, component, kImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(daemonset, kContainer));
  ApplyCdi(*main, runtime, context);
  if (!toolkit.install_dir.empty() && toolkit.install_dir != kDefaultToolkitInstallDir) {
    SetEnv(*main, "ROOT", toolkit.install_dir);
    SetHostPath(daemonset, "toolkit-install-dir", toolkit.install_dir);
    if (Object* mount = FindMount(*main, "toolkit-install-dir")) {
      (*mount)["mountPath"] = toolkit.install_dir;
    }
  }
  if (!context.facts.openshift() && runtime == Runtime::kCrio) {
    SetHostPath(daemonset, "crio-hooks", "/usr/share/containers/oci/hooks.d");
  }
  SetEnv(*main, EnvironmentFor(toolkit, main_runtime));
  WireRuntime(daemonset, *main, runtime, context);
  if (toolkit.host_network) UseHostNetwork(daemonset);
  return {};
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  TRY_ASSIGN(Object * manifest, RequireDaemonSet(objects));
  const Object plain = *manifest;
  const std::vector<Runtime> runtimes = context.facts.toolkit_runtimes();
  TRY(CustomizeFor(runtimes.front(), *manifest, context));
  for (const Runtime runtime : std::span(runtimes).subspan(1)) {
    Object daemonset = plain;
    TRY(CustomizeFor(runtime, daemonset, context));
    objects.push_back(std::move(daemonset));
  }
  return {};
}

}  // namespace

Operand ContainerToolkit() {
  return {.state = "state-container-toolkit",
          .condition = "ContainerToolkitReady",
          .title = "container toolkit",
          .name = "container toolkit",
          .daemonsets = {kToolkitDaemonSet, "nvidia-container-toolkit-daemonset-containerd",
                         "nvidia-container-toolkit-daemonset-crio",
                         "nvidia-container-toolkit-daemonset-docker"},
          .deploy = {.key = api::kDeployContainerToolkit,
                     .workloads = kContainers,
                     .value = LabelValue,
                     .may_write = NamesRuntime},
          .stage = Stage::kToolkit,
          .gpu_client = GpuClient::kPaused,
          .images = {kImage},
          .blocks = {"spec.toolkit", "spec.validator"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
