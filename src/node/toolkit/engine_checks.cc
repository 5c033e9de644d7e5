#include "node/toolkit/engine_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/log.h"
#include "base/strings.h"
#include "codec/json.h"
#include "host/root.h"
#include "node/toolkit/crio.h"
#include "node/toolkit/docker.h"
#include "node/toolkit/engine_process.h"
#include "rpc/container_runtime.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

// nullopt where the engine tells nothing. One that ends with an error over its files refuses them.
base::Result<std::optional<Json>> ReadDump(const EngineOptions& options) {
  const auto dump = DumpEngineConfig(options);
  if (!dump && dump.error().reason == "ProgramFailed" && options.kind == EngineKind::kContainerd) {
    return base::Fail(dump.error().Within("the container engine refuses its new configuration"));
  }
  if (!dump) {
    base::LogInfo("The new configuration is not checked by the engine itself",
                  {{"why", dump.error().message}});
    return std::nullopt;
  }
  TRY_ASSIGN(Json config, ParseEngineConfig(options.kind, *dump, "the engine's dump"));
  return config;
}

// Engines before containerd 2.0 and CRI-O 1.30 tell the kubelet no names.
base::Status CheckHandlers(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                           const std::vector<std::string>& handlers) {
  if (handlers.empty()) return {};
  std::vector<std::string> missing;
  for (const auto& runtime : runtimes) {
    if (std::ranges::find(handlers, runtime.name) == handlers.end()) {
      missing.push_back(runtime.name);
    }
  }
  if (missing.empty()) return {};
  return base::Fail(base::Invalid(
      "RuntimeHandlerMissing",
      fmt::format("{} runs, and tells the kubelet of no runtime {}: it has {}",
                  ToString(options.kind), base::Join(missing, ", "), base::Join(handlers, ", "))));
}

// Docker has no dump, and tells the kubelet nothing: it is asked itself. A daemon that does not
// answer in words, or refuses to, tells nothing.
base::Status CheckDocker(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                         const io::StopToken& stop, base::Deadline deadline) {
  constexpr int kOk = 200;
  const auto answer = AskDocker(options.socket, "/info", stop, deadline);
  if (!answer && answer.error().code == base::Code::kCancelled) return base::Fail(answer.error());
  if (answer && answer->status == kOk) {
    const auto info = codec::ParseJson(answer->body, "docker's /info");
    if (info && info->is_object()) return CheckDockerInfo(options, runtimes, *info);
  }
  base::LogInfo(
      "Docker does not tell which runtimes it has",
      {{"why", answer ? "status " + std::to_string(answer->status) : answer.error().message}});
  return {};
}

}  // namespace

base::Status CheckFiles(const EngineOptions& options, const std::vector<Runtime>& runtimes) {
  const bool is_hook = options.hook.enabled;
  if (options.kind != EngineKind::kContainerd && !is_hook) return {};
  // What these read is made from our files only when they start again.
  const auto& distribution = options.distribution;
  if (distribution.placement == Placement::kTemplate ||
      distribution.placement == Placement::kFoundByItself ||
      distribution.name == Distribution::kK0s) {
    return {};
  }
  TRY_ASSIGN(const auto dump, ReadDump(options));
  if (!dump) return {};
  return is_hook ? CheckHookIsRead(options, *dump) : CheckEffective(options, runtimes, *dump);
}

base::Status CheckRunning(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                          const io::StopToken& stop, base::Deadline deadline) {
  if (options.restart == RestartMode::kNone) return {};
  // CRI-O's dump is that of the process which runs: there is none of files that it has not read.
  if (options.kind == EngineKind::kCrio) {
    TRY_ASSIGN(const auto dump, ReadDump(options));
    if (dump) {
      TRY(CheckEffective(options, runtimes, *dump));
    }
  }
  const auto exists = host::Exists(options.socket);
  if (!exists || !*exists) return {};
  if (options.kind == EngineKind::kDocker) return CheckDocker(options, runtimes, stop, deadline);
  const auto status = rpc::WaitForContainerRuntime(options.socket, stop, deadline);
  if (status && status->handlers.empty() && options.distribution.name != Distribution::kNone) {
    TRY_ASSIGN(const auto dump, ReadDump(options));
    return dump ? CheckEffective(options, runtimes, *dump) : base::Status();
  }
  if (status) return CheckHandlers(options, runtimes, status->handlers);
  if (status.error().code == base::Code::kCancelled) return base::Fail(status.error());
  base::LogInfo("The container engine does not tell which runtimes it has",
                {{"why", status.error().message}});
  return {};
}

}  // namespace pitcrew::node::toolkit
