// Makes the cluster as rendered: applies what differs, deletes what is no longer wanted.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "desired/operand_report.h"
#include "desired/removal.h"
#include "desired/render.h"
#include "io/stop.h"
#include "kube/client.h"
#include "operator/roll_out/lagging_pods.h"
#include "operator/roll_out/take_over.h"
#include "operator/watches/inventory.h"

namespace pitcrew::gpu_operator {

// What to do about one desired object.
enum class Step {
  kNothing,  // the cluster has it as wanted
  kPending,  // we have just written it; the watch has not shown that yet
  kVerify,   // somebody else wrote it, or the operator has just started: compare it
  kApply,
};

// What was written last, to tell somebody else's change from the echo of our own.
struct Written {
  std::string hash;
  std::uint64_t fingerprint = 0;
  std::uint64_t version = 0;
  base::SteadyClock::time_point at;
};
// `live` null: there is no such object; `written` null: nothing was written since the start.
Step Decide(std::string_view desired_hash, const desired::OwnedObject* live, const Written* written,
            base::SteadyClock::time_point now);

// After this time a write that the watch has not told of is not waited for any longer.
inline constexpr std::chrono::seconds kEchoTimeout{10};

// What one owner (a ClusterPolicy) has in the cluster. Used by one thread at a time, except for
// Forget and End.
class Rollout {
 public:
  // `owner_uid`: only what this object controls is ever deleted, and DaemonSets that former
  // NVIDIADrivers of the name `driver_object` have left; "" for an owner of another kind.
  Rollout(std::shared_ptr<kube::Client> client, const Inventory& inventory,
          std::string operator_namespace, std::string owner_uid,
          const desired::OperandTable& operands = desired::Operands(),
          std::string driver_object = "");

  // Forgets the pass before.
  void BeginPass();
  // Decides which objects of the cluster no operand wants any more. Before Run; `rendered` is all
  // of them.
  void DecideRemovals(std::span<const desired::RenderedOperand> rendered,
                      const io::StopToken& stop);
  // Brings one operand to what was rendered and says how it is. Sends nothing when nothing differs.
  desired::OperandReport Run(const desired::RenderedOperand& operand, const io::StopToken& stop);
  // Deletes what is left of operands that this version does not have any more.
  base::Status RemoveFormerOperands(const io::StopToken& stop);
  // An object was deleted: what was written before says nothing about it.
  void Forget(const kube::ResourceKind& kind, const kube::ObjectKey& key);
  // The policy is gone: from now on nothing is written for it, also by a pass that is under way.
  // Else objects that the garbage collector deletes with their owner would be made again.
  void End() { ended_ = true; }
  [[nodiscard]] bool ended() const { return ended_; }
  // Where to look for the pods that are behind; null: nowhere. Must outlive this object.
  void set_lagging_pods(LaggingPods* pods) { lagging_pods_ = pods; }
  // Something was written and not seen again yet.
  [[nodiscard]] bool pending() const { return pending_; }

 private:
  using Identity = std::pair<std::string, kube::ObjectKey>;  // plural and key

  base::Status ApplyIfNeeded(const desired::Object& object, const io::StopToken& stop);
  base::Status Apply(const kube::ResourceKind& kind, const desired::Object& object,
                     const Identity& identity, const io::StopToken& stop);
  void Remember(const Identity& identity, const desired::Object& desired,
                const desired::Object& live);
  // What is known to stand of the operands' objects. A kind that has not been listed yet is left
  // out; one that cannot be read is too, and is an error of the pass.
  std::vector<desired::StandingObject> Standing(const io::StopToken& stop);
  // Carries out the removals from the operand.
  base::Status RemoveFrom(const desired::RenderedOperand& rendered, const io::StopToken& stop);
  // Whether the owner is the NVIDIADriver that has its name now, by a fresh read.
  base::Result<bool> OwnerHasItsName(const io::StopToken& stop) const;
  // `rendered`: the operand that the object was of.
  base::Status Remove(const desired::Removal& removal, const desired::RenderedOperand& rendered,
                      const io::StopToken& stop);
  desired::OperandReport Readiness(const desired::RenderedOperand& operand) const;
  // The DaemonSet as it stands and, when it is behind, why.
  std::pair<desired::DaemonSetProgress, std::string> Look(const desired::Object& daemonset) const;

  std::atomic<bool> ended_{false};
  std::shared_ptr<kube::Client> client_;
  const Inventory& inventory_;
  const desired::OperandTable& operands_;
  std::string owner_uid_;
  std::string driver_object_;
  Predecessor predecessor_;
  LaggingPods* lagging_pods_ = nullptr;
  bool pending_ = false;
  // Of this pass.
  std::vector<desired::Removal> removals_;
  base::Status standing_known_;
  std::mutex mutex_;
  std::map<Identity, Written> written_;
};

}  // namespace pitcrew::gpu_operator
