#include "desired/operand_report.h"

#include <fmt/format.h>

namespace pitcrew::desired {

std::string Describe(const DaemonSetProgress& progress, const std::optional<LaggingPod>& lagging) {
  const DaemonSetStatus& status = progress.status;
  if (!progress.current) return fmt::format("DaemonSet {} is being changed", progress.name);
  if (status.observed_generation < status.generation) {
    return fmt::format("DaemonSet {} has just been changed", progress.name);
  }
  if (status.desired == 0)
    return fmt::format("DaemonSet {}: no node is meant for it", progress.name);
  std::string text =
      status.updated < status.desired
          ? fmt::format("DaemonSet {}: {} of {} pods run the current version, {} are ready",
                        progress.name, status.updated, status.desired, status.available)
          : fmt::format("DaemonSet {}: {} of {} pods are ready", progress.name, status.available,
                        status.desired);
  if (lagging) {
    text += fmt::format("; {} is behind: pod {}: {}",
                        lagging->node.empty() ? "a node" : "node " + lagging->node, lagging->name,
                        lagging->why);
  }
  return text;
}

}  // namespace pitcrew::desired
