#include "operator/command.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <map>

#include "api/labels.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "io/http_server.h"
#include "kube/config.h"
#include "kube/leader.h"
#include "operator/metrics/collectors.h"
#include "operator/runner.h"
#include "operator/settings.h"
#include "prom/process.h"

namespace pitcrew::gpu_operator {
namespace {

io::HttpAnswer Fine() { return {.status = 200, .content_type = "text/plain", .body = "ok"}; }

io::HttpAnswer NotReady() {
  return {
      .status = 503, .content_type = "text/plain", .body = "the cluster has not been listed yet"};
}

// What the endpoints tell of the process.
struct Standing {
  std::atomic<bool> leads = false;
  // A process that waits to lead is ready: its Deployment must be able to replace the one that
  // leads. One that works is ready when it knows the cluster.
  std::atomic<bool> ready = true;
};

// "/metrics": what the metrics hold, and what the process and its client tell.
io::HttpAnswer AnswerMetrics(const Metrics& metrics) {
  return {.status = 200,
          .content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = metrics.Render()};
}

// Namespace of the lease: the flag, else the service account's.
base::Result<std::string> LeaseNamespace(const Settings& settings) {
  if (!settings.leader_namespace.empty()) return settings.leader_namespace;
  const auto own = base::ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace");
  if (own) return std::string(base::Trim(*own));
  return base::Fail(base::Invalid(
      "LeaseNamespaceMissing",
      "leader election outside a cluster needs --leader-elect-namespace, which says where the "
      "lease is kept"));
}

base::Result<kube::LeaderOptions> MakeLeaderOptions(const Settings& settings) {
  TRY_ASSIGN(const std::string name_space, LeaseNamespace(settings));
  kube::LeaderOptions options;
  options.lease = {.namespace_name = name_space, .name = std::string(api::kOperatorLease)};
  options.identity = kube::MakeLeaderIdentity();
  if (settings.renew_deadline.count() > 0) {
    options.renew_deadline = settings.renew_deadline;
    options.lease_duration = settings.renew_deadline + std::chrono::seconds(5);
  }
  return options;
}

base::Status RunOperator(const Settings& settings, const io::StopToken& stop) {
  if (settings.operator_namespace.empty()) {
    return base::Fail(base::Invalid(
        "OperatorNamespaceMissing",
        "the environment variable OPERATOR_NAMESPACE must name the operator's namespace"));
  }
  PermittedDeviceOptions permitted_devices;
  if (settings.manage_kubevirt) {
    TRY_ASSIGN(gpu::DeviceNames names, gpu::DeviceNames::Load(settings.pci_ids));
    permitted_devices.names = std::make_shared<const gpu::DeviceNames>(std::move(names));
  }
  TRY_ASSIGN(kube::Config config, kube::LoadConfig(settings.kubeconfig));
  TRY_ASSIGN(const std::shared_ptr<kube::Client> client,
             kube::Client::Create(std::move(config), {.user_agent = "gpu-operator"}));
  Metrics metrics;
  Standing standing;
  const auto collecting = metrics.Collect([&](prom::Exposition& exposition) {
    ExposeRequests(client->request_counts(), client->config().server, exposition);
    if (settings.leader_elect) ExposeLeader(api::kOperatorLease, standing.leads, exposition);
    prom::ExposeProcess(exposition);
  });
  TRY_ASSIGN(
      const auto health,
      io::HttpServer::Start(
          settings.health_address,
          {{"/healthz", Fine}, {"/readyz", [&] { return standing.ready ? Fine() : NotReady(); }}}));
  TRY_ASSIGN(const auto metrics_server,
             io::HttpServer::Start(settings.metrics_address,
                                   {{"/metrics", [&] { return AnswerMetrics(metrics); }}}));
  const auto work = [&](const io::StopToken& working) {
    standing.leads = settings.leader_elect;
    standing.ready = false;
    return RunControllers(client,
                          {.operator_namespace = settings.operator_namespace,
                           .images = settings.images,
                           .manage_definitions = settings.manage_definitions,
                           .permitted_devices = permitted_devices,
                           .synced = [&](bool synced) { standing.ready = synced; }},
                          metrics, working);
  };
  if (!settings.leader_elect) return work(stop);
  TRY_ASSIGN(const auto leader, MakeLeaderOptions(settings));
  return kube::RunWhileLeader(*client, leader, work, stop);
}

}  // namespace

int Command(int argc, char** argv) {
  const auto settings = ReadSettings(argc, argv);
  if (!settings) {
    fmt::print(stderr, "gpu-operator: {}\n", settings.error().message);
    return kUsage;
  }
  if (!*settings) return 0;
  base::ConfigureLog((*settings)->log);
  base::LogInfo("version: " PITCREW_VERSION);
  io::StopSource source;
  base::Status worked = source.StopOnSignals({SIGTERM, SIGINT});
  if (worked) worked = RunOperator(**settings, source.token());
  if (worked || (source.token().stopped() && worked.error().code == base::Code::kCancelled)) {
    return 0;
  }
  base::LogError("the operator ends", worked.error());
  return kFailure;
}

}  // namespace pitcrew::gpu_operator
