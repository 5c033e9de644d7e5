// Looks at the container that holds an operand's pod up.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/labels.h"
#include "api/validator_names.h"
#include "base/strings.h"
#include "fleet/operand_looks.h"

namespace pitcrew::fleet::look {
namespace {

bool WaitsFor(const OperandContext& context, std::initializer_list<std::string_view> reasons) {
  return context.container != nullptr && context.container->state == "waiting" &&
         std::ranges::find(reasons, context.container->reason) != reasons.end();
}

bool PullFails(const OperandContext& context) {
  return context.container != nullptr && fleet::PullFails(*context.container);
}

std::string PullMessage(const OperandContext& context) {
  return fleet::PullMessage(context.on.cluster, *context.pod, *context.container);
}

PullTrouble PullTroubleOf(const OperandContext& context) {
  return fleet::PullTroubleOf(*context.container, PullMessage(context));
}

Seen SawPull(const OperandContext& context, std::string summary) {
  Seen seen{.summary = std::move(summary),
            .evidence = {context.Saw(
                fmt::format("{}: {}", context.container->reason, FirstLine(PullMessage(context))))},
            .words = {{"image", context.container->image}},
            .since = context.pod->not_ready_since()};
  AddMissingPullSecrets(context.on.cluster, *context.pod, PullTroubleOf(context), seen);
  return seen;
}

bool SaysNotFound(const OperandContext& context) {
  return PullTroubleOf(context) == PullTrouble::kNotFound;
}

}  // namespace

Look DriverImageNotFound(const OperandContext& context) {
  if (!PullFails(context) || !SaysNotFound(context) || context.container->init) return std::nullopt;
  std::string summary = fmt::format("there is no driver image {}", context.container->image);
  const Node& node = context.on.node;
  if (!node.kernel.empty()) summary += fmt::format(" ({}, kernel {})", node.os_image, node.kernel);
  return SawPull(context, std::move(summary));
}

Look ImageNotFound(const OperandContext& context) {
  if (!PullFails(context) || !SaysNotFound(context)) return std::nullopt;
  return SawPull(context, fmt::format("there is no image {}", context.container->image));
}

Look PullDenied(const OperandContext& context) {
  if (!PullFails(context) || PullTroubleOf(context) != PullTrouble::kDenied) return std::nullopt;
  return SawPull(
      context, fmt::format("the registry refuses to give the image {}", context.container->image));
}

Look PullFailed(const OperandContext& context) {
  if (!PullFails(context)) return std::nullopt;
  return SawPull(context, fmt::format("the image {} cannot be pulled", context.container->image));
}

Look PluginConfigMissing(const OperandContext& context) {
  const std::string_view wanted = context.on.node.Label(api::kDevicePluginConfig);
  const std::string& name = context.on.policy->device_plugin.config_name;
  const Cluster& cluster = context.on.cluster;
  if (wanted.empty() || name.empty() || !cluster.has_read(Kind::kConfigMaps)) return std::nullopt;
  const auto map = cluster.config_maps.find(name);
  if (map != cluster.config_maps.end() &&
      std::ranges::find(map->second, wanted) != map->second.end()) {
    return std::nullopt;
  }
  const std::string keys =
      map == cluster.config_maps.end() ? "absent" : "keys: " + base::Join(map->second, ", ");
  return Seen{
      .summary = fmt::format("the node asks for the plugin configuration \"{}\", which ConfigMap "
                             "{} does not have",
                             wanted, name),
      .evidence = {SawLabel(context.on.node, api::kDevicePluginConfig),
                   {fmt::format("ConfigMap {}/{}", cluster.name_space, name), "data", keys,
                    std::nullopt}},
      .words = {{"map", name}, {"key", std::string(wanted)}},
      .since = context.pod == nullptr ? Time() : context.pod->not_ready_since()};
}

Look ConfigMissing(const OperandContext& context) {
  if (!WaitsFor(context, {"CreateContainerConfigError"})) return std::nullopt;
  return Seen{.summary = fmt::format("the {} refers to something that does not exist",
                                     context.operand.name),
              .evidence = {context.Saw(FirstLine(context.container->message))},
              .words = {},
              .since = context.pod->not_ready_since()};
}

Look CdiUnresolvable(const OperandContext& context) {
  if (context.container == nullptr) return std::nullopt;
  static constexpr std::array<std::string_view, 2> kWords = {"unresolvable CDI devices",
                                                             "CDI device injection failed"};
  for (const std::string* text : {&context.container->message, &context.container->last_message}) {
    if (!ContainsAny(*text, kWords)) continue;
    return Seen{
        .summary = "the container runtime does not find the CDI device that the pod was given",
        .evidence = {context.Saw(FirstLine(*text))},
        .words = {},
        .since = context.pod->not_ready_since()};
  }
  return std::nullopt;
}

Look OutOfMemory(const OperandContext& context) {
  if (context.container == nullptr) return std::nullopt;
  const Container& container = *context.container;
  if (container.reason != "OOMKilled" && container.last_reason != "OOMKilled") return std::nullopt;
  return Seen{.summary = fmt::format("the {} is killed because it needs more memory than its limit",
                                     context.operand.name),
              .evidence = {context.Saw(fmt::format("OOMKilled, {} restarts", container.restarts),
                                       container.last_finished)},
              .words = {},
              .since = context.pod->not_ready_since()};
}

namespace {

std::int64_t EndCode(const OperandContext& context) {
  const Container& container = *context.container;
  return container.state == "terminated" ? container.exit_code : container.last_exit_code;
}

// "CrashLoopBackOff after 7 restarts, exit code 1: its last words".
std::string HowItEnds(const OperandContext& context) {
  const Container& container = *context.container;
  const bool over = container.state == "terminated";
  std::string words = FirstLine(over ? container.message : container.last_message);
  if (words.empty()) words = context.LastLine();
  if (words.empty()) words = "it has left no message";
  return fmt::format("{}exit code {}, {} restarts: {}",
                     container.reason.empty() ? "" : container.reason + ", ", EndCode(context),
                     container.restarts, words);
}

bool Fails(const OperandContext& context) {
  if (context.container == nullptr) return false;
  const Container& container = *context.container;
  if (container.state == "terminated") return container.exit_code != 0;
  return container.reason == "CrashLoopBackOff" || container.reason == "RunContainerError" ||
         container.reason == "CreateContainerError" || container.reason == "StartError" ||
         (container.restarts > 0 && container.last_exit_code != 0 && !container.started);
}

Look StepFails(const OperandContext& context, std::string_view step, std::string_view summary) {
  if (!Fails(context) || context.container->name != step) return std::nullopt;
  return Seen{.summary = std::string(summary),
              .evidence = {context.Saw(HowItEnds(context), context.container->last_finished)},
              .words = {},
              .since = context.pod->not_ready_since()};
}

}  // namespace

Look ToolkitValidationFails(const OperandContext& context) {
  return StepFails(context, "toolkit-validation",
                   "a test container is given no GPU: the container toolkit does not work here");
}

// The last words of the pod that runs CUDA for the validator, if there is one.
Look CudaValidationFails(const OperandContext& context) {
  auto seen = StepFails(context, "cuda-validation", "a CUDA program does not run on this node");
  if (!seen) return seen;
  for (const Pod* pod : context.on.cluster.PodsOf(context.on.node.name)) {
    if (pod->app != api::kCudaValidator || pod->ready) continue;
    for (const Container& container : pod->containers) {
      if (container.ended_well()) continue;
      const LogKey log{pod->key, container.name, false};
      const std::string words = LastLineOf(context.on.Log(log));
      seen->evidence.push_back(
          {"Pod " + pod->key.ToString(), "container " + container.name,
           words.empty() ? fmt::format("{} {}", container.state, container.reason) : words,
           container.since});
      break;
    }
  }
  return seen;
}

Look CrashLoop(const OperandContext& context) {
  if (!Fails(context)) return std::nullopt;
  // Seen again, with the plugin, behind the plugin (rule plugin-not-validated).
  if (context.container->name == "plugin-validation") return std::nullopt;
  return Seen{
      .summary = fmt::format("{} of the {} fails again and again (exit code {})",
                             context.container->name, context.operand.name, EndCode(context)),
      .evidence = {context.Saw(HowItEnds(context), context.container->last_finished)},
      .words = {},
      .since = context.pod->not_ready_since()};
}

Look DriverInstalling(const OperandContext& context) {
  if (context.container == nullptr || context.container->init ||
      context.container->state != "running") {
    return std::nullopt;
  }
  const std::string words = context.LastLine();
  return Seen{
      .summary = fmt::format("the {} is being installed: its container runs and has not yet "
                             "loaded its kernel modules",
                             context.operand.name),
      .evidence = {context.Saw(words.empty() ? "running" : words, context.container->since)},
      .words = {},
      .since = context.container->since};
}

namespace {

// Containers that wait for another part, and for which.
struct Awaited {
  std::string_view container;
  std::string_view what;
};

constexpr Awaited kAwaited[] = {
    {"driver-validation", "the driver"},
    {"toolkit-validation", "the container toolkit"},
    {"cuda-validation", "a CUDA program to run"},
    {"plugin-validation", "the device plugin"},
    {"vfio-pci-validation", "GPUs bound to vfio-pci"},
    {"vgpu-manager-validation", "the vGPU manager"},
    {"vgpu-devices-validation", "vGPU devices"},
    {"cc-manager-validation", "the confidential computing manager"},
    {"k8s-driver-manager", "users of the GPU to go, before the driver is changed"},
    {"config-manager-init", "the node's plugin configuration"},
};

}  // namespace

Look InitWaits(const OperandContext& context) {
  if (context.container == nullptr || !context.container->init ||
      context.container->state != "running") {
    return std::nullopt;
  }
  // driver-validation is looked at with the driver (driver-not-valid, host-driver-missing),
  // plugin-validation with the device plugin (plugin-not-validated).
  if (context.container->name == "driver-validation" ||
      context.container->name == "plugin-validation") {
    return std::nullopt;
  }
  const auto* awaited = std::ranges::find(kAwaited, context.container->name, &Awaited::container);
  const std::string_view what = awaited == std::end(kAwaited) ? "its preparation" : awaited->what;
  const std::string words = context.LastLine();
  return Seen{
      .summary = fmt::format("the {} waits for {}", context.operand.name, what),
      .evidence = {context.Saw(words.empty() ? "running" : words, context.container->since)},
      .words = {},
      .since = context.container->since};
}

Look NotReady(const OperandContext& context) {
  if (context.container == nullptr || context.container->state != "running" ||
      context.container->init) {
    return std::nullopt;
  }
  const std::string words = context.LastLine();
  return Seen{
      .summary = fmt::format("{} of the {} runs and is not ready", context.container->name,
                             context.operand.name),
      .evidence = {context.Saw(words.empty() ? "running" : words, context.container->since)},
      .words = {},
      .since = context.container->since};
}

Look Starting(const OperandContext& context) {
  if (context.pod == nullptr) return std::nullopt;
  // Their waits belong to links further on.
  if (context.container != nullptr && (context.container->name == "plugin-validation" ||
                                       context.container->name == "driver-validation")) {
    return std::nullopt;
  }
  std::string state = context.pod->phase;
  if (context.container != nullptr && !context.container->reason.empty()) {
    state = context.container->reason;
  }
  return Seen{.summary = fmt::format("the pod of the {} is starting", context.operand.name),
              .evidence = {context.Saw(state)},
              .words = {},
              .since = context.pod->not_ready_since()};
}

}  // namespace pitcrew::fleet::look
