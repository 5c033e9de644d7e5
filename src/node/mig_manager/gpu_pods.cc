#include "node/mig_manager/gpu_pods.h"

#include <fmt/format.h>

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

  std::vector<Json> Holders() {
    HolderFacts facts;
    facts.changing = wait_.changing;
    facts.gpu_of_device = wait_.gpu_of_device;
    facts.claims_gpu = [this](const Json& pod) {
      return workload::HoldsGpuClaim(*client_, pod, stop_);
    };
    auto devices = rpc::ListPodDevices(options_.pod_resources(), stop_,
                                       base::Deadline::After(kKubeletAnswers));
    if (devices) {
      facts.devices = *std::move(devices);
    } else if (!told_about_kubelet_) {
      told_about_kubelet_ = true;
      base::LogWarning("Every pod with a GPU counts as one that holds a GPU of this change",
                       devices.error());
    }
    std::vector<std::shared_ptr<const Json>> kept;
    std::vector<const Json*> pods;
    for (const auto& [key, pod] : informer_.store().Snapshot()) {
      kept.push_back(pod);
      pods.push_back(pod.get());
    }
    std::vector<Json> holders;
    for (const auto* pod : FindHolders(pods, facts)) holders.push_back(*pod);
    Tell(holders);
    return holders;
  }

  void Tell(const std::vector<Json>& holders) {
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
  std::vector<std::string> refused_;
  bool told_about_kubelet_ = false;
};

}  // namespace

base::Status AwaitGpusFree(const Options& options, const std::shared_ptr<kube::Client>& client,
                           const PodWait& wait, const io::StopToken& stop) {
  TRY_ASSIGN(auto changed, base::Bell::Create());
  return GpuPods(options, client, wait, stop, std::move(changed)).Await();
}

}  // namespace pitcrew::node::mig_manager
