// The programs that the chart's hooks run (reference operator-behaviour.md section 17).
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "base/clock.h"
#include "base/command_line.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "codec/yaml.h"
#include "desired/cluster_kinds.h"
#include "kube/await.h"
#include "kube/config.h"
#include "kube/projection.h"
#include "operator/command.h"
#include "operator/definitions/definitions.h"
#include "operator/uninstall/uninstall.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

constexpr std::chrono::seconds kEstablishTimeout{10};
constexpr std::chrono::seconds kRemovalPatience{10};
constexpr std::chrono::minutes kGpuClusterTimeout{5};

// Flags that all of these programs have.
struct CommonFlags {
  std::optional<bool> debug;
  std::optional<std::string> kubeconfig;

  void AddTo(base::CommandLine& line) {
    line.Add({"debug,d", "DEBUG", "more log lines"}, &debug);
    line.Add({"kubeconfig", "", "kubeconfig file; then KUBECONFIG, in-cluster, ~/.kube/config"},
             &kubeconfig);
  }
  void ConfigureLog() const {
    base::LogSettings settings;
    if (debug.value_or(false)) settings.level = base::LogLevel::kDebug;
    base::ConfigureLog(settings);
  }
  [[nodiscard]] base::Result<std::shared_ptr<kube::Client>> MakeClient(const char* program) const {
    TRY_ASSIGN(kube::Config config, kube::LoadConfig(kubeconfig.value_or("")));
    return kube::Client::Create(std::move(config), {.user_agent = program});
  }
};

base::Error BadUsage(std::string message) { return base::Invalid("BadUsage", std::move(message)); }

int Finish(const char* program, const base::Status& status) {
  if (status) return 0;
  fmt::print(stderr, "{}: {}\n", program, status.error().message);
  return status.error().reason == "BadUsage" ? kUsage : kFailure;
}

// Runs `work` until it is done or SIGTERM or SIGINT come.
base::Status UntilStopped(const std::function<base::Status(const io::StopToken&)>& work) {
  io::StopSource source;
  TRY(source.StopOnSignals({SIGTERM, SIGINT}));
  return work(source.token());
}

bool IsDefinition(const Json& document) {
  return codec::FindString(document, {"kind"}) == "CustomResourceDefinition" &&
         !codec::FindString(document, {"spec", "group"}).empty() &&
         !codec::FindString(document, {"spec", "names", "kind"}).empty();
}

base::Status ReadFile(const std::filesystem::path& path, std::vector<Json>& definitions) {
  TRY_ASSIGN(const std::string text, base::ReadFile(path.string()));
  TRY_ASSIGN(const std::vector<Json> documents, codec::ParseYamlStream(text, path.string()));
  std::ranges::copy_if(documents, std::back_inserter(definitions), IsDefinition);
  return {};
}

// The definitions of files and of folders, whole trees of them; other documents are passed over.
base::Result<std::vector<Json>> ReadDefinitions(const std::vector<std::string>& paths) {
  std::vector<Json> definitions;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      TRY(ReadFile(path, definitions));
      continue;
    }
    std::vector<std::filesystem::path> files;
    for (auto entry = std::filesystem::recursive_directory_iterator(path, error);
         !error && entry != std::filesystem::recursive_directory_iterator();
         entry.increment(error)) {
      const auto extension = entry->path().extension();
      if (extension == ".yaml" || extension == ".yml") files.push_back(entry->path());
    }
    if (error) return base::Fail(base::FromErrno(error.value(), "read the folder " + path));
    std::ranges::sort(files);
    for (const auto& file : files) TRY(ReadFile(file, definitions));
  }
  return definitions;
}

// Does something to one definition after the other, and tells what has become of each.
base::Status ForEach(
    const std::vector<Json>& definitions,
    const std::function<base::Result<std::string_view>(const Json&, const std::string&)>& work) {
  for (const Json& definition : definitions) {
    const std::string name = codec::FindString(definition, {"metadata", "name"});
    TRY_ASSIGN(const std::string_view outcome, work(definition, name));
    fmt::print("{}: {}\n", name, outcome);
  }
  return {};
}

base::Status ApplyAll(const std::shared_ptr<kube::Client>& client,
                      const std::vector<Json>& definitions, bool force, const io::StopToken& stop) {
  const DefinitionOptions options{.force = force, .replace_diverged = true};
  TRY(ForEach(definitions,
              [&](const Json& definition, const std::string&) -> base::Result<std::string_view> {
                TRY_ASSIGN(const DefinitionChange change,
                           EnsureDefinition(*client, definition, options, stop));
                return ToString(change);
              }));
  for (const Json& definition : definitions) {
    const std::string name = codec::FindString(definition, {"metadata", "name"});
    TRY(AwaitEstablished(client, name, kEstablishTimeout, stop));
  }
  return {};
}

base::Status RemoveAll(const std::shared_ptr<kube::Client>& client,
                       const std::vector<Json>& definitions, const io::StopToken& stop) {
  return ForEach(
      definitions, [&](const Json&, const std::string& name) -> base::Result<std::string_view> {
        TRY_ASSIGN(const bool gone, RemoveDefinition(client, name, kRemovalPatience, stop));
        return gone ? "deleted" : "is being deleted; finalizers of its objects hold it";
      });
}

base::Status ManageCrds(int argc, char** argv) {
  base::CommandLine line("manage-crds",
                         "apply: installs and upgrades CustomResourceDefinitions; delete: removes "
                         "them, with all objects of their kinds.",
                         "manage-crds " PITCREW_VERSION);
  CommonFlags common;
  std::optional<std::vector<std::string>> files;
  std::optional<bool> force;
  std::vector<std::string> words;
  common.AddTo(line);
  line.Add({"filepath,f", "",
            "file or folder of definitions, repeatable (default: those of this release)"},
           &files);
  line.Add({"force", "", "apply: also over those of a newer release"}, &force);
  line.AddWords("apply|delete", "what to do", &words);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  if (words.size() != 1 || (words[0] != "apply" && words[0] != "delete")) {
    return base::Fail(BadUsage("say what to do: manage-crds apply, or manage-crds delete"));
  }
  common.ConfigureLog();
  TRY_ASSIGN(const std::vector<Json> definitions,
             files ? ReadDefinitions(*files) : OwnDefinitions());
  TRY_ASSIGN(const auto client, common.MakeClient("manage-crds"));
  return UntilStopped([&](const io::StopToken& stop) -> base::Status {
    return words[0] == "apply" ? ApplyAll(client, definitions, force.value_or(false), stop)
                               : RemoveAll(client, definitions, stop);
  });
}

base::Status RunUninstall(int argc, char** argv) {
  base::CommandLine line("pitcrew uninstall",
                         "Deletes ClusterPolicies with all that they made, and cleans up the nodes "
                         "when none is left. 'pitcrew plan --uninstall' lists it beforehand.",
                         "pitcrew " PITCREW_VERSION);
  CommonFlags common;
  std::optional<std::vector<std::string>> policies;
  std::optional<bool> all;
  std::optional<std::string> name_space;
  std::optional<std::string> timeout;
  common.AddTo(line);
  line.Add({"policy", "", "name of a ClusterPolicy, repeatable"}, &policies);
  line.Add({"all", "", "every ClusterPolicy and NVIDIADriver"}, &all);
  line.Add({"namespace,n", "OPERATOR_NAMESPACE", "the operator's namespace"}, &name_space);
  line.Add({"timeout", "", "how long it may take, for example 5m (the default)"}, &timeout);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  UninstallOptions options;
  options.operator_namespace = name_space.value_or("");
  options.policies = policies.value_or(std::vector<std::string>{});
  options.all_policies = all.value_or(false);
  if (options.policies.empty() == !options.all_policies) {
    return base::Fail(BadUsage("say which ClusterPolicies go: --policy NAME, or --all"));
  }
  if (options.operator_namespace.empty()) {
    return base::Fail(BadUsage("--namespace must name the operator's namespace"));
  }
  if (timeout) {
    const auto duration = base::ParseGoDuration(*timeout);
    if (!duration || *duration <= std::chrono::nanoseconds::zero()) {
      return base::Fail(
          BadUsage(fmt::format("--timeout is \"{}\", must be a duration such as 5m", *timeout)));
    }
    options.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(*duration);
  }
  common.ConfigureLog();
  TRY_ASSIGN(const auto client, common.MakeClient("pitcrew-uninstall"));
  return UntilStopped([&](const io::StopToken& stop) { return Uninstall(client, options, stop); });
}

base::Status DeleteGpuCluster(const std::shared_ptr<kube::Client>& client, const std::string& name,
                              const io::StopToken& stop) {
  TRY_ASSIGN(const bool served, client->Serves(desired::kGpuClusters, stop));
  if (!served) return {};
  const kube::ObjectKey key{.namespace_name = "", .name = name};
  const auto deleted = client->Delete(desired::kGpuClusters, key, {}, stop);
  if (!deleted && deleted.error().code == base::Code::kNotFound) return {};
  TRY(deleted);
  return kube::Await<bool>(
      client, desired::kGpuClusters,
      kube::ProjectJson<bool>([](const Json&) -> base::Result<bool> { return true; }),
      {.field_selector = "metadata.name=" + name},
      [](const kube::Store<bool>& store) -> base::Result<bool> { return store.size() == 0; }, stop,
      std::chrono::steady_clock::now() + kGpuClusterTimeout);
}

base::Status CleanupGpuClusters(int argc, char** argv) {
  base::CommandLine line("cleanup-gpuclusters", "Deletes a GPUCluster and waits until it is gone.",
                         "cleanup-gpuclusters " PITCREW_VERSION);
  CommonFlags common;
  std::optional<std::string> name;
  common.AddTo(line);
  line.Add({"gpucluster-name", "GPUCLUSTER_NAME", "name of the GPUCluster"}, &name);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  if (name.value_or("").empty()) {
    return base::Fail(BadUsage("--gpucluster-name must name the GPUCluster"));
  }
  common.ConfigureLog();
  TRY_ASSIGN(const auto client, common.MakeClient("cleanup-gpuclusters"));
  return UntilStopped(
      [&](const io::StopToken& stop) { return DeleteGpuCluster(client, *name, stop); });
}

}  // namespace

int ManageCrdsCommand(int argc, char** argv) {
  return Finish("manage-crds", ManageCrds(argc, argv));
}
int UninstallCommand(int argc, char** argv) {
  return Finish("pitcrew uninstall", RunUninstall(argc, argv));
}
int CleanupGpuClustersCommand(int argc, char** argv) {
  return Finish("cleanup-gpuclusters", CleanupGpuClusters(argc, argv));
}

}  // namespace pitcrew::gpu_operator
