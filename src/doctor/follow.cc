#include "doctor/follow.h"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/bell.h"
#include "desired/cluster_kinds.h"
#include "doctor/source.h"
#include "kube/informer.h"
#include "kube/projection.h"

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

// Most changes of nodes are heartbeats and lists of images, which are not in a view.
template <class View>
bool IsSeen(const kube::Change<View>& change) {
  if constexpr (std::equality_comparable<View>) {
    return change.before == nullptr || change.now == nullptr || *change.before != *change.now;
  }
  return true;
}

// One watch, and how its objects get into a Cluster.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual void Start() = 0;
  virtual base::Status WaitUntilSynced(const io::StopToken& stop) = 0;
  virtual void Put(Cluster& cluster) const = 0;
};

template <class View>
class WatchOf final : public Watch {
 public:
  using Put1 = void (*)(const View&, Cluster&);
  WatchOf(const std::shared_ptr<kube::Client>& client, const std::shared_ptr<base::Bell>& bell,
          Kind kind, const kube::ResourceKind& resource, View (*read)(const codec::Json&), Put1 put,
          kube::InformerOptions options)
      : kind_(kind),
        put_(put),
        informer_(client, resource,
                  kube::ProjectJson<View>([read](const codec::Json& object) -> base::Result<View> {
                    return read(object);
                  }),
                  std::move(options)) {
    informer_.AddHandler([bell](const kube::Change<View>& change) {
      if (IsSeen(change)) bell->Ring();
    });
  }

  void Start() override { informer_.Start(); }
  base::Status WaitUntilSynced(const io::StopToken& stop) override {
    return informer_.WaitUntilSynced(stop);
  }
  void Put(Cluster& cluster) const override {
    for (const auto& [key, view] : informer_.store().Snapshot()) put_(*view, cluster);
    // What is known may be old; that is said, and not hidden.
    const auto trouble = informer_.status().trouble;
    if (trouble) cluster.unread.emplace(kind_, *trouble);
  }

 private:
  Kind kind_;
  Put1 put_;
  kube::Informer<View> informer_;
};

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

}  // namespace

base::Status Follow(const std::shared_ptr<kube::Client>& client, const Cluster& first,
                    const std::function<void(const Cluster&)>& show, const io::StopToken& stop) {
  TRY_ASSIGN(auto made, base::Bell::Create());
  const auto bell = std::make_shared<base::Bell>(std::move(made));
  const auto watches = MakeWatches(client, bell, first);
  FailingWatches failing(client, bell);
  for (const auto& watch : watches) watch->Start();
  for (const auto& watch : watches) TRY(watch->WaitUntilSynced(stop));
  while (!stop.stopped()) {
    const auto begin = std::chrono::steady_clock::now();
    Cluster cluster;
    cluster.name_space = first.name_space;
    cluster.now = base::WallClock::now();
    cluster.unread = first.unread;
    // These seldom change, and are not worth a watch.
    cluster.runtime_classes = first.runtime_classes;
    cluster.config_maps = first.config_maps;
    cluster.served_fields = first.served_fields;
    cluster.definition_absent = first.definition_absent;
    for (const auto& watch : watches) watch->Put(cluster);
    if (first.has_read(Kind::kUserPods)) failing.Put(cluster);
    cluster.Index();
    show(cluster);
    const auto took =
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    TRY(io::WaitReadable({bell->fd()}, stop));
    bell->Silence();
    if (stop.WaitFor(std::max(kTogether, kRest * took))) break;
  }
  return {};
}

}  // namespace pitcrew::doctor
