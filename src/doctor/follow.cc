#include "doctor/follow.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/bell.h"
#include "desired/cluster_kinds.h"
#include "doctor/machine_watches.h"
#include "doctor/source.h"
#include "doctor/watch.h"

namespace pitcrew::doctor {
namespace {

using fleet::Cluster;
using fleet::Kind;

// Memory for a page is no matter here, and fewer of them are faster.
constexpr int kFollowPageSize = 500;
// Changes often come in dozens; one picture of them is enough.
constexpr std::chrono::milliseconds kTogether{200};
// A look at a large fleet takes long. So many times as long is waited before the next one, so that
// watching costs a tenth of a processor at most.
constexpr int kRest = 9;
// Each is a stream of its own.
constexpr std::size_t kMostFailingWatches = 50;
// What is not worth a watch is read again when so much time has passed; the watches, which their
// server ends every few minutes, make a picture then at the latest.
constexpr std::chrono::minutes kSeldom{5};

void PutPod(const fleet::Pod& pod, Cluster& cluster) {
  if (pod.key.name_space == cluster.name_space || !pod.requests.empty()) {
    cluster.pods.insert_or_assign(pod.key, pod);
  }
}

std::vector<std::unique_ptr<Watch>> MakeWatches(const std::shared_ptr<kube::Client>& client,
                                                const std::shared_ptr<base::Bell>& bell,
                                                const Cluster& first) {
  std::vector<std::unique_ptr<Watch>> watches;
  const auto add = [&]<class View>(Kind kind, const kube::ResourceKind& resource,
                                   View (*read)(const codec::Json&),
                                   void (*put)(const View&, Cluster&), std::string name_space,
                                   std::string fields) {
    if (!first.has_read(kind)) return;
    kube::InformerOptions options;
    options.namespace_name = std::move(name_space);
    options.field_selector = std::move(fields);
    options.page_size = kFollowPageSize;
    watches.push_back(std::make_unique<WatchOf<View>>(client, bell, kind, resource, read, put,
                                                      std::move(options)));
  };
  if (!first.definition_absent) {
    add.operator()<fleet::Policy>(
        Kind::kPolicies, desired::kClusterPolicies, fleet::ReadPolicy,
        [](const fleet::Policy& policy, Cluster& cluster) { cluster.policies.push_back(policy); },
        "", "");
  }
  // Where the drivers are theirs from the beginning; a change-over is seen at the next start.
  if (first.uses_driver_objects()) {
    add.operator()<fleet::DriverObject>(
        Kind::kDrivers, desired::kNvidiaDrivers, fleet::ReadDriver,
        [](const fleet::DriverObject& driver, Cluster& cluster) {
          cluster.drivers.insert_or_assign(driver.name, driver);
        },
        "", "");
  }
  add.operator()<fleet::Node>(
      Kind::kNodes, kube::kNodes, fleet::ReadNode,
      [](const fleet::Node& node, Cluster& cluster) {
        cluster.nodes.insert_or_assign(node.name, node);
      },
      "", "");
  add.operator()<fleet::DaemonSet>(
      Kind::kDaemonSets, kube::kDaemonSets, fleet::ReadDaemonSet,
      [](const fleet::DaemonSet& daemonset, Cluster& cluster) {
        cluster.daemonsets.insert_or_assign(daemonset.key.name, daemonset);
      },
      first.name_space, "");
  add.operator()<fleet::Pod>(Kind::kOperandPods, kube::kPods, fleet::ReadPod, PutPod,
                             first.name_space, "");
  for (const char* phase : {"Pending", "Failed"}) {
    add.operator()<fleet::Pod>(Kind::kUserPods, kube::kPods, fleet::ReadPod, PutPod, "",
                               WaitingPods(phase, first.name_space));
  }
  add.operator()<fleet::Event>(
      Kind::kEvents, kube::kEvents, fleet::ReadEvent,
      [](const fleet::Event& event, Cluster& cluster) { cluster.events.push_back(event); }, "",
      "type=Warning");
  return watches;
}

// One pod of many, which the server cannot be asked for by what is wrong with it.
std::unique_ptr<Watch> WatchPod(const std::shared_ptr<kube::Client>& client,
                                const std::shared_ptr<base::Bell>& bell, const fleet::Key& key) {
  kube::InformerOptions options;
  options.namespace_name = key.name_space;
  options.field_selector = "metadata.name=" + key.name;
  return std::make_unique<WatchOf<fleet::Pod>>(client, bell, Kind::kUserPods, kube::kPods,
                                               fleet::ReadPod, PutPod, std::move(options));
}

// Failing pods, each with a watch of its own for as long as the kubelet warns of it.
class FailingWatches {
 public:
  FailingWatches(std::shared_ptr<kube::Client> client, std::shared_ptr<base::Bell> bell)
      : client_(std::move(client)), bell_(std::move(bell)) {}

  void Put(Cluster& cluster) {
    std::vector<fleet::Key> keys = FailingPods(cluster);
    if (keys.size() > kMostFailingWatches) keys.resize(kMostFailingWatches);
    const std::set<fleet::Key> wanted(keys.begin(), keys.end());
    std::erase_if(watches_, [&](const auto& entry) { return !wanted.contains(entry.first); });
    for (const fleet::Key& key : keys) {
      auto& watch = watches_[key];
      if (watch == nullptr) {
        watch = WatchPod(client_, bell_, key);
        watch->Start();
      }
      watch->Put(cluster);
    }
  }

 private:
  std::shared_ptr<kube::Client> client_;
  std::shared_ptr<base::Bell> bell_;
  std::map<fleet::Key, std::unique_ptr<Watch>> watches_;
};

using Watches = std::vector<std::unique_ptr<Watch>>;

base::Result<Watches> StartWatches(const std::shared_ptr<kube::Client>& client,
                                   const std::shared_ptr<base::Bell>& bell, const Cluster& first,
                                   const io::StopToken& stop) {
  Watches watches = MakeWatches(client, bell, first);
  for (const auto& watch : watches) watch->Start();
  for (const auto& watch : watches) TRY(watch->WaitUntilSynced(stop));
  return watches;
}

// Kinds that can be watched now, and could not be before, or the other way round.
bool OthersCanBeRead(const Cluster& first, const Cluster& again) {
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  return first.definition_absent != again.definition_absent ||
         !std::ranges::equal(first.unread, again.unread, same);
}

// What is read seldom, and from `watches` the rest.
Cluster Look(const Cluster& first, const Watches& watches, FailingWatches& failing,
             MachineWatches& machines) {
  Cluster cluster;
  cluster.name_space = first.name_space;
  cluster.now = base::WallClock::now();
  cluster.unread = first.unread;
  cluster.runtime_classes = first.runtime_classes;
  cluster.config_maps = first.config_maps;
  cluster.served_fields = first.served_fields;
  cluster.definition_absent = first.definition_absent;
  for (const auto& watch : watches) watch->Put(cluster);
  if (first.has_read(Kind::kUserPods)) failing.Put(cluster);
  if (first.has_read(Kind::kMachines)) machines.Put(cluster);
  cluster.Index();
  return cluster;
}

}  // namespace

base::Status Follow(const std::shared_ptr<kube::Client>& client, Cluster first,
                    const std::function<void(Cluster)>& show, const io::StopToken& stop) {
  TRY_ASSIGN(auto made, base::Bell::Create());
  const auto bell = std::make_shared<base::Bell>(std::move(made));
  FailingWatches failing(client, bell);
  MachineWatches machines(client, bell);
  TRY_ASSIGN(Watches watches, StartWatches(client, bell, first, stop));
  auto read = std::chrono::steady_clock::now();
  while (!stop.stopped()) {
    const auto begin = std::chrono::steady_clock::now();
    show(Look(first, watches, failing, machines));
    const auto took =
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    TRY(io::WaitReadable({bell->fd()}, stop));
    bell->Silence();
    if (stop.WaitFor(std::max(kTogether, kRest * took))) break;
    if (std::chrono::steady_clock::now() - read < kSeldom) continue;
    read = std::chrono::steady_clock::now();
    auto again = ReadLive(*client, first.name_space, stop, Extent::kFirst);
    if (!again) continue;  // a server that does not answer: the watches tell it
    const bool others = OthersCanBeRead(first, *again);
    first = *std::move(again);
    if (!others) continue;
    TRY_ASSIGN(watches, StartWatches(client, bell, first, stop));
  }
  return {};
}

}  // namespace pitcrew::doctor
