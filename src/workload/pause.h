// Pausing the operands of a node through the labels that their DaemonSets select by, while a driver
// or a geometry is exchanged, and resuming them (driver-lifecycle.md 4.5, mig-manager.md 9.3,
// vgpu-device-manager.md 6.2). Labels that are not there are not made, and what others wrote
// meanwhile stays: a pause adds a word to the value, and resuming takes just that word away.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::workload {

// "true" becomes `word`, "x" becomes "x_<word>"; "", "false" and values with the word stay.
std::string PausedValue(std::string_view value, std::string_view word);
// The way back; values without the word stay.
std::string ResumedValue(std::string_view value, std::string_view word);

// The merge patch of a node's labels that pauses (or resumes) those of `labels` that it has;
// nothing when none has to change. `word` is for example api::kPausedForDriverUpgrade.
std::optional<codec::Json> PausePatch(const codec::Json& node,
                                      const std::vector<std::string_view>& labels,
                                      std::string_view word);
std::optional<codec::Json> ResumePatch(const codec::Json& node,
                                       const std::vector<std::string_view>& labels,
                                       std::string_view word);

// Those of `labels` that carry the word once PausePatch is in force: whose operands leave for it,
// or have left.
std::vector<std::string_view> PausedLabels(const codec::Json& node,
                                           const std::vector<std::string_view>& labels,
                                           std::string_view word);

// Waits until no pod of the namespace on the node has one of these values of the label "app", or of
// "name" where it has no other (the managers of VFIO and of confidential computing).
// kTimeout "OperandsStillRunning" names those that are left.
base::Status AwaitOperandsGone(const std::shared_ptr<kube::Client>& client, const std::string& node,
                               const std::string& namespace_name,
                               const std::set<std::string, std::less<>>& apps,
                               std::chrono::steady_clock::time_point deadline,
                               const io::StopToken& stop);

// Whether a container of such a pod runs (not only one that prepares it): it has the files of
// whatever was on the node when it started.
base::Result<bool> OperandsRun(kube::Client& client, const std::string& node,
                               const std::string& namespace_name,
                               const std::set<std::string, std::less<>>& apps,
                               const io::StopToken& stop);

}  // namespace pitcrew::workload
