#include "node/nfd/command.h"

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/command_line.h"
#include "base/log.h"
#include "base/strings.h"
#include "io/http_server.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/leader.h"
#include "node/nfd/gc.h"
#include "node/nfd/master.h"
#include "node/nfd/resources.h"
#include "node/nfd/worker.h"

namespace pitcrew::node::nfd {
namespace {

using OptionalText = std::optional<std::string>;
using OptionalList = std::optional<std::vector<std::string>>;

constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr std::string_view kConfigFolder = "/etc/kubernetes/node-feature-discovery/";

// Flags of all three programs. klog's are accepted: lines go to standard error whatever they say.
struct CommonFlags {
  OptionalText kubeconfig;
  std::optional<std::int64_t> port;
  std::optional<std::int64_t> verbosity;
  std::vector<OptionalText> ignored_texts = std::vector<OptionalText>(6);
  std::vector<std::optional<bool>> ignored_bools = std::vector<std::optional<bool>>(6);

  void AddTo(base::CommandLine& line) {
    line.Add({"kubeconfig", "", "kubeconfig file; in-cluster without it"}, &kubeconfig);
    line.Add({"port", "", "port of the health endpoint"}, &port);
    line.Add({"v", "", "verbosity of the log: 4 and more writes debug lines"}, &verbosity);
    constexpr std::string_view kTexts[] = {"vmodule",         "log_dir",
                                           "log_file",        "log_file_max_size",
                                           "stderrthreshold", "log_backtrace_at"};
    for (std::size_t i = 0; i < std::size(kTexts); ++i) {
      line.Add({kTexts[i], "", "accepted, without effect"}, &ignored_texts[i]);
    }
    constexpr std::string_view kBools[] = {"logtostderr",  "alsologtostderr",  "add_dir_header",
                                           "skip_headers", "skip_log_headers", "one_output"};
    for (std::size_t i = 0; i < std::size(kBools); ++i) {
      line.Add({kBools[i], "", "accepted, without effect"}, &ignored_bools[i]);
    }
  }
  void Apply() const {
    constexpr std::int64_t kDebug = 4;
    if (verbosity.value_or(0) >= kDebug) base::ConfigureLog({.level = base::LogLevel::kDebug});
  }
};

int Fail(std::string_view program, const base::Error& error, int code) {
  base::LogError("The program ends", error, {{"program", program}});
  return code;
}

// 1 for what can change by itself, 2 for wrong flags and configuration.
int ExitCode(const base::Error& error) {
  return error.code == base::Code::kInvalid ? kUsage : kFailure;
}

base::Result<std::shared_ptr<kube::Client>> Connect(const CommonFlags& flags) {
  TRY_ASSIGN(auto config, kube::LoadConfig(flags.kubeconfig.value_or("")));
  return kube::Client::Create(std::move(config));
}

// An empty element stands for an empty list: "-label-sources=".
OptionalList WithoutBlanks(OptionalList list) {
  if (list) std::erase_if(*list, [](const auto& item) { return base::Trim(item).empty(); });
  return list;
}

base::Result<std::unique_ptr<io::HttpServer>> ServeHealth(std::optional<std::int64_t> port) {
  constexpr std::int64_t kDefaultPort = 8080;
  return io::HttpServer::Start(":" + std::to_string(port.value_or(kDefaultPort)),
                               {{"/healthz", [] { return io::HttpAnswer{}; }}});
}

struct WorkerFlags {
  CommonFlags common;
  OptionalText config;
  OptionalText options;
  std::optional<bool> oneshot;
  std::optional<bool> no_publish;
  std::optional<bool> no_owner_refs;
  OptionalList owner_refs;
  OptionalList feature_sources;
  OptionalList label_sources;
  OptionalList no_publish_features;
  OptionalList feature_gates;

  void AddTo(base::CommandLine& line) {
    common.AddTo(line);
    line.Add({"config", "", "configuration file"}, &config);
    line.Add({"options", "", "configuration as YAML or JSON text, merged over the file"}, &options);
    line.Add({"oneshot", "", "publish once and end"}, &oneshot);
    line.Add({"no-publish", "", "discover, and write nothing"}, &no_publish);
    line.Add({"no-owner-refs", "", "deprecated: see owner-refs"}, &no_owner_refs);
    line.Add({"owner-refs", "", "owners of the NodeFeature: node, pod, ds"}, &owner_refs);
    line.Add({"feature-sources", "", "sources that discover; all, name, -name"}, &feature_sources);
    line.Add({"label-sources", "", "sources whose labels are published"}, &label_sources);
    line.Add({"no-publish-features", "", "features that are kept back"}, &no_publish_features);
    line.Add({"feature-gates", "", "Name=bool"}, &feature_gates);
  }
};

base::Result<WorkerOptions> MakeWorkerOptions(const WorkerFlags& flags) {
  constexpr std::int64_t kDefaultPort = 8080;
  TRY_ASSIGN(const auto texts,
             ReadConfigTexts(flags.config.value_or(std::string(kConfigFolder) + "nfd-worker.conf"),
                             flags.options.value_or("")));
  WorkerOptions options;
  TRY_ASSIGN(
      options.config,
      MakeWorkerConfig(texts, {.no_publish = flags.no_publish,
                               .no_owner_refs = flags.no_owner_refs,
                               .owner_refs = WithoutBlanks(flags.owner_refs),
                               .feature_sources = WithoutBlanks(flags.feature_sources),
                               .label_sources = WithoutBlanks(flags.label_sources),
                               .no_publish_features = WithoutBlanks(flags.no_publish_features)}));
  options.paths = HostPaths::Detect();
  options.identity = {Environment("NODE_NAME"), OwnNamespace(), Environment("POD_NAME"),
                      Environment("POD_UID"), PITCREW_VERSION};
  options.oneshot = flags.oneshot.value_or(false);
  options.port = static_cast<int>(flags.common.port.value_or(kDefaultPort));
  if (options.identity.node_name.empty() && !options.config.no_publish) {
    return base::Fail(base::Invalid("NoNodeName", "the environment variable NODE_NAME is not set"));
  }
  return options;
}

struct MasterFlags {
  CommonFlags common;
  OptionalText config;
  OptionalText options;
  OptionalText instance;
  std::optional<bool> prune;
  std::optional<bool> leader_election;
  std::optional<bool> enable_taints;
  std::optional<bool> no_publish;
  OptionalList extra_label_ns;
  OptionalList deny_label_ns;
  OptionalText label_white_list;
  OptionalText resync_period;
  std::optional<std::int64_t> parallelism;
  std::optional<std::int64_t> page_size;
  OptionalList feature_gates;

  void AddTo(base::CommandLine& line) {
    common.AddTo(line);
    line.Add({"config", "", "configuration file"}, &config);
    line.Add({"options", "", "configuration as YAML or JSON text, merged over the file"}, &options);
    line.Add({"instance", "", "prefix of the bookkeeping annotations"}, &instance);
    line.Add({"prune", "", "take everything off all nodes and end"}, &prune);
    line.Add({"enable-leader-election", "", "of several masters only one works"}, &leader_election);
    line.Add({"enable-taints", "", "let rules taint nodes"}, &enable_taints);
    line.Add({"no-publish", "", "write nothing to nodes"}, &no_publish);
    line.Add({"extra-label-ns", "", "label namespaces that are always allowed"}, &extra_label_ns);
    line.Add({"deny-label-ns", "", "label namespaces that are refused"}, &deny_label_ns);
    line.Add({"label-whitelist", "", "expression for names of labels"}, &label_white_list);
    line.Add({"resync-period", "", "how often every node is looked at"}, &resync_period);
    line.Add({"nfd-api-parallelism", "", "nodes that are written at once"}, &parallelism);
    line.Add({"informer-page-size", "", "objects per page of a list"}, &page_size);
    line.Add({"feature-gates", "", "Name=bool"}, &feature_gates);
  }
};

base::Result<MasterConfig> MakeConfig(const MasterFlags& flags) {
  TRY_ASSIGN(const auto texts,
             ReadConfigTexts(flags.config.value_or(std::string(kConfigFolder) + "nfd-master.conf"),
                             flags.options.value_or("")));
  return MakeMasterConfig(
      texts,
      {.instance = flags.instance,
       .deny_label_ns = WithoutBlanks(flags.deny_label_ns),
       .extra_label_ns = WithoutBlanks(flags.extra_label_ns),
       .label_white_list = flags.label_white_list,
       .no_publish = flags.no_publish,
       .resync_period = flags.resync_period,
       .parallelism = flags.parallelism,
       .page_size = flags.page_size,
       .feature_gates = flags.feature_gates.value_or(std::vector<std::string>())},
      OwnNamespace());
}

base::Status LeadMaster(const std::shared_ptr<kube::Client>& client, const MasterConfig& config,
                        const io::StopToken& stop) {
  const auto milliseconds = [](std::chrono::nanoseconds duration) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(duration);
  };
  return kube::RunWhileLeader(
      *client,
      {.lease = {config.namespace_name, "nfd-master.nfd.kubernetes.io"},
       .identity = kube::MakeLeaderIdentity(),
       .lease_duration = milliseconds(config.lease_duration),
       .renew_deadline = milliseconds(config.renew_deadline),
       .retry_period = milliseconds(config.retry_period)},
      [&](const io::StopToken& lost) { return RunMaster(client, config, lost); }, stop);
}

base::Status RunMaster(const MasterFlags& flags, const MasterConfig& config,
                       const io::StopToken& stop) {
  if (flags.enable_taints.value_or(false)) {
    base::LogInfo("-enable-taints has no effect: no rules are evaluated");
  }
  TRY_ASSIGN(const auto client, Connect(flags.common));
  if (flags.prune.value_or(false)) return PruneNodes(*client, config, stop);
  TRY_ASSIGN(const auto server, ServeHealth(flags.common.port));
  if (flags.leader_election.value_or(false)) return LeadMaster(client, config, stop);
  return RunMaster(client, config, stop);
}

// Reads flags, then runs `work` with a token that SIGTERM and SIGINT stop.
template <class Flags, class Work>
int RunProgram(std::string_view program, std::string_view description, int argc, char** argv,
               Work work) {
  Flags flags;
  base::CommandLine line(program, description, std::string(program) + " " + PITCREW_VERSION);
  flags.AddTo(line);
  const auto go_on = line.Parse(argc, argv);
  if (!go_on) return Fail(program, go_on.error(), kUsage);
  if (!*go_on) return 0;
  flags.common.Apply();
  io::StopSource source;
  if (const auto set = source.StopOnSignals({SIGTERM, SIGINT}); !set) {
    return Fail(program, set.error(), kFailure);
  }
  const base::Status done = work(flags, source.token());
  if (!done && done.error().code == base::Code::kCancelled) return 0;
  return done ? 0 : Fail(program, done.error(), ExitCode(done.error()));
}

struct GcFlags {
  CommonFlags common;
  OptionalText interval;
  std::optional<std::int64_t> list_size;

  void AddTo(base::CommandLine& line) {
    common.AddTo(line);
    line.Add({"gc-interval", "", "time between passes over all objects"}, &interval);
    line.Add({"list-size", "", "objects per page of a list"}, &list_size);
  }
};

}  // namespace

int WorkerCommand(int argc, char** argv) {
  return RunProgram<WorkerFlags>(
      "nfd-worker", "Publishes what this node has as a NodeFeature object.", argc, argv,
      [](const WorkerFlags& flags, const io::StopToken& stop) -> base::Status {
        TRY_ASSIGN(const auto options, MakeWorkerOptions(flags));
        std::shared_ptr<kube::Client> client;
        if (!options.config.no_publish) {
          TRY_ASSIGN(client, Connect(flags.common));
        }
        return RunWorker(options, client, stop);
      });
}

int MasterCommand(int argc, char** argv) {
  return RunProgram<MasterFlags>(
      "nfd-master", "Puts the labels of NodeFeature objects on nodes.", argc, argv,
      [](const MasterFlags& flags, const io::StopToken& stop) -> base::Status {
        TRY_ASSIGN(const auto config, MakeConfig(flags));
        return RunMaster(flags, config, stop);
      });
}

int GcCommand(int argc, char** argv) {
  return RunProgram<GcFlags>(
      "nfd-gc", "Deletes NodeFeature objects of nodes that are gone.", argc, argv,
      [](const GcFlags& flags, const io::StopToken& stop) -> base::Status {
        GcConfig config;
        if (flags.interval) {
          TRY_ASSIGN(config.interval, base::ParseGoDuration(*flags.interval));
        }
        config.page_size = static_cast<int>(flags.list_size.value_or(config.page_size));
        TRY_ASSIGN(const auto client, Connect(flags.common));
        TRY_ASSIGN(const auto server, ServeHealth(flags.common.port));
        return RunGc(client, config, stop);
      });
}

}  // namespace pitcrew::node::nfd
