#include "operator/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/strings.h"
#include "desired/operand_table.h"
#include "gpu/device_names.h"

namespace pitcrew::gpu_operator {
namespace {

using OptionalText = std::optional<std::string>;

base::Error BadFlag(std::string_view flag, std::string_view value, std::string_view right) {
  return base::Invalid("BadUsage", fmt::format("--{} is \"{}\", must be {}", flag, value, right));
}

base::Status CheckChoice(std::string_view flag, const OptionalText& value,
                         std::initializer_list<std::string_view> choices) {
  if (!value) return {};
  for (const auto choice : choices) {
    if (*value == choice) return {};
  }
  return base::Fail(
      BadFlag(flag, *value, "one of " + base::Join({choices.begin(), choices.end()}, ", ")));
}

// The flags of controller-runtime's zap logger.
struct LogFlags {
  std::optional<bool> development;
  OptionalText encoder;
  OptionalText level;
  OptionalText stacktrace_level;
  OptionalText time_encoding;

  void AddTo(base::CommandLine& line) {
    line.Add({"zap-devel", "", "log for developers: text, debug lines"}, &development);
    line.Add({"zap-encoder", "", "json or console"}, &encoder);
    line.Add({"zap-log-level", "", "debug, info, error, panic, or a verbosity above 0"}, &level);
    line.Add({"zap-stacktrace-level", "", "accepted, without effect: errors carry their reason"},
             &stacktrace_level);
    line.Add({"zap-time-encoding", "",
              "epoch, millis, nanos, iso8601, rfc3339 or rfc3339nano; lines carry RFC 3339"},
             &time_encoding);
  }

  [[nodiscard]] base::Result<base::LogSettings> Read() const {
    TRY(CheckChoice("zap-encoder", encoder, {"json", "console"}));
    TRY(CheckChoice("zap-stacktrace-level", stacktrace_level, {"info", "error", "panic"}));
    OptionalText encoding = time_encoding;
    if (encoding) encoding = base::ToLower(*encoding);
    TRY(CheckChoice("zap-time-encoding", encoding,
                    {"epoch", "millis", "nanos", "iso8601", "rfc3339", "rfc3339nano"}));
    base::LogSettings settings;
    const bool devel = development.value_or(false);
    settings.format = encoder.value_or(devel ? "console" : "json") == "json"
                          ? base::LogFormat::kJson
                          : base::LogFormat::kText;
    settings.level = devel ? base::LogLevel::kDebug : base::LogLevel::kInfo;
    if (!level) return settings;
    const auto verbosity = base::ParseUnsigned(*level);
    if (*level == "debug" || (verbosity && *verbosity > 0)) {
      settings.level = base::LogLevel::kDebug;
    } else if (*level == "info") {
      settings.level = base::LogLevel::kInfo;
    } else if (*level == "error" || *level == "panic") {
      settings.level = base::LogLevel::kError;
    } else {
      return base::Fail(
          BadFlag("zap-log-level", *level, "debug, info, error, panic or a number above 0"));
    }
    return settings;
  }
};

struct Flags {
  OptionalText metrics_address;
  OptionalText health_address;
  std::optional<bool> leader_elect;
  OptionalText leader_namespace;
  OptionalText renew_deadline;
  OptionalText kubeconfig;
  std::optional<bool> manage_definitions;
  std::optional<bool> manage_kubevirt;
  OptionalText pci_ids;
  LogFlags log;

  void AddTo(base::CommandLine& line) {
    line.Add({"metrics-bind-address", "", "where /metrics listens (default :8080)"},
             &metrics_address);
    line.Add({"health-probe-bind-address", "", "where /healthz and /readyz listen (default :8081)"},
             &health_address);
    line.Add({"leader-elect", "", "of several operators let one work"}, &leader_elect);
    line.Add({"leader-elect-namespace", "", "namespace of the lease; default: the pod's own"},
             &leader_namespace);
    line.Add(
        {"leader-lease-renew-deadline", "", "how long a leader tries to renew, for example 60s"},
        &renew_deadline);
    line.Add({"kubeconfig", "", "kubeconfig file; then KUBECONFIG, in-cluster, ~/.kube/config"},
             &kubeconfig);
    line.Add({"manage-crds", "MANAGE_CRDS",
              "install and upgrade the CustomResourceDefinitions (default true)"},
             &manage_definitions);
    line.Add({"manage-kubevirt", "MANAGE_KUBEVIRT",
              "keep permittedHostDevices of KubeVirt or HyperConverged equal to what nodes offer "
              "(default false)"},
             &manage_kubevirt);
    line.Add({"pci-ids", "PCI_IDS",
              "with --manage-kubevirt: the PCI ID database after which GPUs are named (default "
              "/usr/pci.ids)"},
             &pci_ids);
    log.AddTo(line);
  }
};

}  // namespace

base::Result<std::optional<Settings>> ReadSettings(
    int argc, const char* const* argv, const base::CommandLine::Environment& environment) {
  base::CommandLine line("gpu-operator", "Decides what a cluster's GPU nodes should run.",
                         "gpu-operator " PITCREW_VERSION);
  Flags flags;
  flags.AddTo(line);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, environment));
  if (!go_on) return std::nullopt;

  Settings settings;
  settings.metrics_address = flags.metrics_address.value_or(settings.metrics_address);
  settings.health_address = flags.health_address.value_or(settings.health_address);
  settings.leader_elect = flags.leader_elect.value_or(false);
  settings.leader_namespace = flags.leader_namespace.value_or("");
  settings.kubeconfig = flags.kubeconfig.value_or("");
  settings.manage_definitions = flags.manage_definitions.value_or(true);
  settings.manage_kubevirt = flags.manage_kubevirt.value_or(false);
  settings.pci_ids = flags.pci_ids.value_or(std::string(gpu::kDatabaseFile));
  if (flags.renew_deadline) {
    const auto duration = base::ParseGoDuration(*flags.renew_deadline);
    if (!duration || *duration < std::chrono::nanoseconds::zero()) {
      return base::Fail(
          BadFlag("leader-lease-renew-deadline", *flags.renew_deadline, "a duration such as 60s"));
    }
    settings.renew_deadline = std::chrono::duration_cast<std::chrono::milliseconds>(*duration);
  }
  TRY_ASSIGN(settings.log, flags.log.Read());
  settings.operator_namespace = environment("OPERATOR_NAMESPACE").value_or("");
  settings.images = desired::ReadDefaultImages(desired::Operands().image_variables(), environment);
  return settings;
}

}  // namespace pitcrew::gpu_operator
