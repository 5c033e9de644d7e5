// Who has to let go of the GPUs while their geometry changes: operands of the cluster, by the
// labels that keep them on the node, and services of the host (mig-manager.md 9.3 to 9.5). Pure but
// for reading files.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "desired/operand_table.h"

namespace pitcrew::node::mig_manager {

// The operands that leave for a change of MIG, and two labels that are nobody's operand: of NVSM,
// and of people's own clients.
std::vector<desired::PausedPods> GpuClients(
    const desired::OperandTable& operands = desired::Operands());

// Which of them are paused for one change.
struct Pause {
  std::vector<std::string_view> labels;
  std::set<std::string, std::less<>> apps;  // whose pods are waited for
  bool third_parties = false;               // pods of DaemonSets that select by the clients' label
};
// Clients in `following` read the new geometry by themselves, so they stay; but while a MIG mode
// changes, nobody may have the GPU open.
Pause PlanPause(const codec::Json& node, const std::set<std::string, std::less<>>& following,
                bool changes_modes, const desired::OperandTable& operands = desired::Operands());

// The labels of all clients, whoever was paused.
std::vector<std::string_view> AllLabels();

// A pod that a DaemonSet keeps on nodes with the clients' label (9.4, step 9).
bool IsThirdPartyClient(const codec::Json& pod);

// The clients file v1: units of systemd in the order in which they are stopped. An empty path means
// none. kInvalid "InvalidClientsFile" with the place.
base::Result<std::vector<std::string>> ReadHostServices(const std::filesystem::path& file);

}  // namespace pitcrew::node::mig_manager
