#include "node/mig_manager/gpu_clients.h"

#include <fmt/format.h>

#include "api/labels.h"
#include "api/mig_progress.h"
#include "codec/config_reader.h"
#include "kube/ownership.h"
#include "node/own_node/own_node.h"
#include "workload/pause.h"

namespace pitcrew::node::mig_manager {

std::vector<desired::PausedPods> GpuClients(const desired::OperandTable& operands) {
  auto clients = operands.PodsLeavingFor(desired::NodeChange::kMig);
  clients.push_back({api::kDeployNvsm, ""});
  clients.push_back({api::kDeployClient, ""});
  return clients;
}

Pause PlanPause(const codec::Json& node, const std::set<std::string, std::less<>>& following,
                bool changes_modes, const desired::OperandTable& operands) {
  Pause pause;
  for (const auto& client : GpuClients(operands)) {
    if (!changes_modes && following.contains(client.app)) continue;
    const auto value = own_node::LabelOf(node, client.label);
    const auto paused = workload::PausedValue(value, api::kPausedForMigChange);
    if (paused.find(api::kPausedForMigChange) == std::string::npos) continue;
    pause.labels.push_back(client.label);
    if (!client.app.empty()) pause.apps.emplace(client.app);
    if (client.label == api::kDeployClient) pause.third_parties = true;
  }
  return pause;
}

std::vector<std::string_view> AllLabels() {
  std::vector<std::string_view> labels;
  for (const auto& client : GpuClients()) labels.push_back(client.label);
  return labels;
}

bool IsThirdPartyClient(const codec::Json& pod) {
  const auto owner = kube::ControllerOf(pod);
  return owner && owner->kind == "DaemonSet" &&
         codec::Find(pod, {"spec", "nodeSelector", api::kDeployClient}) != nullptr;
}

base::Result<std::vector<std::string>> ReadHostServices(const std::filesystem::path& file) {
  std::vector<std::string> services;
  if (file.empty()) return services;
  TRY_ASSIGN(const auto document, codec::ConfigDocument::Load(file));
  if (document.empty()) return services;
  TRY_ASSIGN(const auto root, document.Root(codec::Names::kExact));
  std::string version;
  TRY(root.Read("version", version));
  if (version != "v1") return root.Wrong("version", fmt::format("is \"{}\", must be v1", version));
  TRY(root.Read("systemd-services", services));
  return services;
}

}  // namespace pitcrew::node::mig_manager
