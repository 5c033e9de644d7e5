// What the MIG manager tells beside upstream's labels: how far a node's change of its MIG geometry
// is, which it writes into the Node's annotation nvidia.com/mig.config.progress, for people,
// `pitcrew status` and `pitcrew doctor`. Upstream has only the label nvidia.com/mig.config.state
// (mig-manager.md 9.3).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pitcrew::api {

inline constexpr std::string_view kMigConfigProgress = "nvidia.com/mig.config.progress";

struct MigProgress {
  std::string config;  // what was asked for: the label nvidia.com/mig.config
  // pausing (operands end), waiting (for pods), changing, done, failed, rebooting.
  std::string phase;
  std::string since;     // RFC 3339: when this phase began
  std::string deadline;  // RFC 3339: when waiting ends in failure; empty: never
  // One sentence: why it failed, what is waited for.
  std::string message;
  std::vector<std::string> waiting_for;  // pods, "namespace/name"
  // By the GPU's position on the node: what is done to it (clearing, creating, done, ...). GPUs
  // that stay as they are do not stand there.
  std::map<int, std::string> gpus;

  bool operator==(const MigProgress&) const = default;
};

// JSON, with what is empty left out.
std::string ToText(const MigProgress& progress);
// Nothing for a text of another form; members of another kind are left out.
std::optional<MigProgress> ParseMigProgress(std::string_view text);

}  // namespace pitcrew::api
