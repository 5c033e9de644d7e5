#include "node/mig_manager/gpu_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/bell.h"
#include "base/log.h"
#include "base/strings.h"
#include "kube/informer.h"
#include "kube/projection.h"
#include "workload/evict.h"
#include "workload/gpu_use.h"

namespace pitcrew::node::mig_manager {
namespace {

using codec::Json;

constexpr std::chrono::seconds kKubeletAnswers{10};
constexpr std::chrono::seconds kLookAgain{2};

// Answers that stay the same however often one asks.
bool IsForGood(const base::Error& error) {
  return error.code == base::Code::kUnsupported || error.code == base::Code::kDenied ||
         error.code == base::Code::kInvalid;
}

class GpuPods {
 public:
  GpuPods(const Options& options, std::shared_ptr<kube::Client> client, const PodWait& wait,
          const io::StopToken& stop, base::Bell changed)
      : options_(options),
        client_(std::move(client)),
        wait_(wait),
        stop_(stop),
        changed_(std::move(changed)),
        informer_(
            client_, kube::kPods,
            kube::ProjectJson<Json>([](const Json& pod) -> base::Result<Json> { return pod; }),
            OfNode(options.node_name)) {
    informer_.AddHandler([this](const kube::Change<Json>&) { changed_.Ring(); });
  }

  base::Status Await() {
    informer_.Start();
    TRY(informer_.WaitUntilSynced(stop_, wait_.deadline));
    while (true) {
      changed_.Silence();
      const auto holders = Holders();
      if (holders.empty()) return {};
      if (unknown_) {
        TRY(WaitUntilNextLook());
        continue;
      }
      Tell(holders);
      TRY_ASSIGN(const bool evicted, Drain(holders));
      if (evicted) continue;
      const auto woken = io::WaitReadable({changed_.fd()}, stop_, wait_.deadline);
      if (!woken && woken.error().code == base::Code::kTimeout) return StillThere(holders);
      TRY(woken);
    }
  }

 private:
  static kube::InformerOptions OfNode(const std::string& node) {
    kube::InformerOptions options;
    options.field_selector = "spec.nodeName=" + node;
    return options;
  }

  // Those that may hold one, too. Sets unknown_.
  std::vector<Json> Holders() {
    unknown_.reset();
    HolderFacts facts;
    facts.changing = wait_.changing;
    facts.gpu_of_device = wait_.gpu_of_device;
    facts.claims_gpu = [this](const Json& pod) {
      const auto holds = workload::CheckGpuClaim(*client_, pod, stop_);
      if (!holds) unknown_ = holds.error();
      return holds.value_or(true);
    };
    std::vector<std::shared_ptr<const Json>> kept;
    std::vector<const Json*> pods;
    for (const auto& [key, pod] : informer_.store().Snapshot()) {
      kept.push_back(pod);
      pods.push_back(pod.get());
    }
    AskKubelet(pods, facts);
    std::vector<Json> holders;
    for (const auto* pod : FindHolders(pods, facts)) holders.push_back(*pod);
    return holders;
  }

  void AskKubelet(const std::vector<const Json*>& pods, HolderFacts& facts) {
    auto devices = rpc::ListPodDevices(options_.pod_resources(), stop_,
                                       base::Deadline::After(kKubeletAnswers));
    std::optional<base::Error> trouble;
    bool starts_anew = false;
    if (devices) {
      facts.devices = *std::move(devices);
      if (const auto* pod = FindUnlisted(pods, facts)) {
        starts_anew = true;
        trouble = base::Unavailable(
            "PodNotListed", fmt::format("the kubelet does not tell of {}, a pod that it has taken",
                                        kube::KeyOf(*pod).ToString()));
      }
    } else {
      starts_anew = devices.error().code == base::Code::kNotFound;
      trouble = devices.error();
    }
    if (!starts_anew) {
      restart_over_.reset();
    } else if (!restart_over_) {
      restart_over_ = base::Deadline::After(options_.kubelet_restart);
    }
    if (!trouble) return;
    if (!IsForGood(*trouble) && !(restart_over_ && restart_over_->passed())) {
      unknown_ = trouble;
    } else if (!told_about_kubelet_) {
      told_about_kubelet_ = true;
      base::LogWarning("Pods whose GPUs are not known count as ones that hold a GPU of this change",
                       *trouble);
    }
  }

  base::Status WaitUntilNextLook() {
    if (wait_.unknown && told_unknown_ != unknown_->message) {
      told_unknown_ = unknown_->message;
      told_.clear();
      base::LogInfo("It is not known which pods hold GPUs of this change",
                    {{"why", unknown_->message}});
      wait_.unknown(*unknown_);
    }
    const auto next = std::min(wait_.deadline, base::Deadline::After(kLookAgain));
    const auto woken = io::WaitReadable({changed_.fd()}, stop_, next);
    if (woken) return {};
    if (woken.error().code != base::Code::kTimeout) return base::Fail(woken.error());
    if (!wait_.deadline.passed()) return {};
    return base::Fail(base::Unavailable(
        "GpuPodsUnknown",
        fmt::format("it is not known which pods use GPUs whose geometry is to change: {}",
                    unknown_->message)));
  }

  void Tell(const std::vector<Json>& holders) {
    told_unknown_.clear();
    std::vector<std::string> names;
    for (const auto& pod : holders) names.push_back(kube::KeyOf(pod).ToString());
    if (names.empty() || names == told_) return;
    told_ = names;
    wait_.waits_for(told_, options_.pods == PodPolicy::kDrain);
  }

  // True when pods were sent away: look again. None goes while another one may not.
  base::Result<bool> Drain(const std::vector<Json>& holders) {
    if (options_.pods != PodPolicy::kDrain) return false;
    workload::DrainOptions drain;
    drain.force = options_.drain_force;
    drain.delete_empty_dir = options_.drain_delete_empty_dir;
    drain.force_name = "DRAIN_USE_FORCE";
    drain.delete_empty_dir_name = "DRAIN_DELETE_EMPTYDIR_DATA";
    auto plan = workload::PlanDrain(holders, drain);
    refused_ = std::move(plan.refused);
    if (!refused_.empty() || plan.evict.empty()) return false;
    workload::EvictOptions evict;
    evict.deadline = wait_.deadline;
    evict.held_up = [](const kube::ObjectKey& pod, const base::Error& why) {
      base::LogInfo("A disruption budget holds an eviction up",
                    {{"pod", pod.ToString()}, {"why", why.message}});
    };
    const auto gone = workload::EvictPods(client_, options_.node_name, plan.evict, evict, stop_);
    if (gone) return true;
    auto error = gone.error();
    if (error.reason == "PodsNotGone") error.reason = "GpuPodsStillThere";
    return base::Fail(error);
  }

  base::Status StillThere(const std::vector<Json>& holders) const {
    std::vector<std::string> parts;
    for (const auto& pod : holders) parts.push_back(kube::KeyOf(pod).ToString());
    auto message =
        fmt::format("pods still use GPUs whose geometry is to change: {}", base::Join(parts, ", "));
    if (!refused_.empty()) {
      message += fmt::format("; not evicted: {}", base::Join(refused_, "; "));
    }
    return base::Fail(base::Error{base::Code::kTimeout, "GpuPodsStillThere", message});
  }

  const Options& options_;
  const std::shared_ptr<kube::Client> client_;
  const PodWait& wait_;
  const io::StopToken& stop_;
  const base::Bell changed_;
  kube::Informer<Json> informer_;  // ends before what its handler rings
  std::vector<std::string> told_;
  std::string told_unknown_;
  std::vector<std::string> refused_;
  bool told_about_kubelet_ = false;
  // Why it is not known who holds GPUs, where that may pass.
  std::optional<base::Error> unknown_;
  // Of a kubelet that seems to start anew: when it should be there, with all its pods.
  std::optional<base::Deadline> restart_over_;
};

}  // namespace

base::Status AwaitGpusFree(const Options& options, const std::shared_ptr<kube::Client>& client,
                           const PodWait& wait, const io::StopToken& stop) {
  TRY_ASSIGN(auto changed, base::Bell::Create());
  return GpuPods(options, client, wait, stop, std::move(changed)).Await();
}

}  // namespace pitcrew::node::mig_manager
