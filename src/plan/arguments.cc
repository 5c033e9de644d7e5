#include "plan/arguments.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "desired/operand_table.h"
#include "plan/cluster.h"

namespace pitcrew::plan {
namespace {

using OptionalText = std::optional<std::string>;

constexpr std::string_view kDescription =
    "Shows what the operator would do for a ClusterPolicy: over a cluster in a file, or over a "
    "live\n"
    "one. Nothing is ever written to a cluster. Words restrict the output to a KIND or KIND/NAME.\n"
    "Exit status: 0 nothing would change, 3 something would, 1 something could not be read,\n"
    "2 wrong usage, or a policy or file that is wrong.";

base::Error BadUsage(std::string message) { return base::Invalid("BadUsage", std::move(message)); }

base::Result<Format> ReadFormat(const std::string& text) {
  static const std::map<std::string, Format, std::less<>> kFormats{{"yaml", Format::kYaml},
                                                                   {"json", Format::kJson},
                                                                   {"table", Format::kTable},
                                                                   {"diff", Format::kDiff}};
  if (const auto found = kFormats.find(text); found != kFormats.end()) return found->second;
  return base::Fail(
      BadUsage(fmt::format("--output is \"{}\", must be yaml, json, table or diff", text)));
}

base::Status CheckTogether(const Arguments& arguments) {
  if (arguments.live == !arguments.cluster_file.empty()) {
    return base::Fail(BadUsage(
        "the cluster is either --cluster FILE (what kubectl get -o yaml prints) or --live"));
  }
  if (!arguments.live && arguments.connection != snapshot::Connection()) {
    return base::Fail(BadUsage("--kubeconfig and --context belong to --live"));
  }
  if (arguments.policy_file == "-" && arguments.cluster_file == "-") {
    return base::Fail(
        BadUsage("standard input is either the policy or the cluster, it cannot be both"));
  }
  if (arguments.uninstall && !arguments.policy_file.empty()) {
    return base::Fail(BadUsage("--uninstall concerns the policies of the cluster and takes no -f"));
  }
  return {};
}

struct Flags {
  OptionalText policy;
  OptionalText cluster;
  std::optional<bool> live;
  snapshot::ConnectionFlags connection;
  OptionalText name_space;
  OptionalText output;
  OptionalText kube_version;
  std::optional<bool> uninstall;
  std::optional<bool> manage_kubevirt;
  OptionalText pci_ids;

  void AddTo(base::CommandLine& line) {
    line.Add({"filename,f", "", "a ClusterPolicy, NVIDIADrivers, or both; - for standard input"},
             &policy);
    line.Add({"cluster", "", "the objects of the cluster: YAML stream, List or JSON, - for stdin"},
             &cluster);
    line.Add({"live", "", "read the cluster that kubectl would talk to"}, &live);
    connection.AddTo(line);
    line.Add(
        {"namespace,n", "OPERATOR_NAMESPACE", "the operator's namespace; default gpu-operator"},
        &name_space);
    line.Add({"output,o", "", "diff (default), table, yaml or json"}, &output);
    line.Add({"kube-version", "", "Kubernetes version; default: the cluster's"}, &kube_version);
    line.Add({"uninstall", "", "what goes when the policies are deleted and the operator leaves"},
             &uninstall);
    line.Add({"manage-kubevirt", "MANAGE_KUBEVIRT",
              "also what an operator with this flag would permit virtual machines"},
             &manage_kubevirt);
    line.Add({"pci-ids", "PCI_IDS",
              "with --manage-kubevirt: the PCI ID database after which GPUs are named; default "
              "/usr/pci.ids"},
             &pci_ids);
  }

  [[nodiscard]] base::Result<gpu::DeviceNames> LoadNames() const {
    const std::filesystem::path file = pci_ids.value_or(std::string(gpu::kDatabaseFile));
    auto names = gpu::DeviceNames::Load(file);
    if (names) return names;
    return base::Fail(BadUsage(names.error().message + " (--pci-ids names another one)"));
  }
};

}  // namespace

base::Result<std::optional<Arguments>> ReadArguments(
    int argc, const char* const* argv, const base::CommandLine::Environment& environment) {
  base::CommandLine line("pitcrew plan", kDescription, "pitcrew plan " PITCREW_VERSION);
  Flags flags;
  Arguments arguments;
  flags.AddTo(line);
  line.AddWords("KIND[/NAME]", "print only these", &arguments.only);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, environment));
  if (!go_on) return std::nullopt;

  arguments.policy_file = flags.policy.value_or("");
  arguments.cluster_file = flags.cluster.value_or("");
  arguments.live = flags.live.value_or(false);
  arguments.connection = flags.connection.Read();
  arguments.uninstall = flags.uninstall.value_or(false);
  TRY_ASSIGN(arguments.format, ReadFormat(flags.output.value_or("diff")));
  TRY(CheckTogether(arguments));
  if (flags.kube_version) {
    TRY_ASSIGN(arguments.options.kubernetes_version, ReadKubernetesVersion(*flags.kube_version));
  }
  arguments.options.operator_namespace = flags.name_space.value_or("");
  if (arguments.options.operator_namespace.empty()) {
    arguments.options.operator_namespace = "gpu-operator";
  }
  if (flags.manage_kubevirt.value_or(false)) {
    TRY_ASSIGN(arguments.options.permit, flags.LoadNames());
  }
  arguments.options.images =
      desired::ReadDefaultImages(desired::Operands().image_variables(), environment);
  return arguments;
}

}  // namespace pitcrew::plan
