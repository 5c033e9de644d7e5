#include "node/nfd/master.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "base/log.h"
#include "kube/controller.h"
#include "kube/informer.h"
#include "node/nfd/node_labels.h"
#include "node/nfd/resources.h"
#include "node/nfd/views.h"

namespace pitcrew::node::nfd {
namespace {

// Which NodeFeature objects name which node, and which nodes have been looked at. Thread-safe.
class NodeIndex {
 public:
  // The nodes that a change concerns.
  std::set<std::string> Apply(const kube::Change<NodeFeatureView>& change) {
    const std::lock_guard lock(mutex_);
    std::set<std::string> nodes;
    if (change.before && !change.before->node_name.empty()) {
      const auto& name = change.before->node_name;
      if (!change.now || change.now->node_name != name) {
        objects_[name].erase(change.key);
        if (objects_[name].empty()) objects_.erase(name);
        pending_deletes_.insert(name);
        nodes.insert(name);
      }
    }
    if (change.now && !change.now->node_name.empty()) {
      objects_[change.now->node_name].insert(change.key);
      if (!change.before || *change.before != *change.now) nodes.insert(change.now->node_name);
    }
    return nodes;
  }

  struct State {
    std::set<kube::ObjectKey> objects;
    bool pending_delete = false;  // an object of this node was seen to go
    base::SteadyClock::time_point known_since;
  };
  State Look(const std::string& node) {
    const std::lock_guard lock(mutex_);
    const auto known = known_since_.try_emplace(node, base::SteadyClock::now()).first;
    const auto found = objects_.find(node);
    return {found == objects_.end() ? std::set<kube::ObjectKey>() : found->second,
            pending_deletes_.contains(node), known->second};
  }
  // The node was brought up to date with that state.
  void Processed(const std::string& node, const State& state) {
    const std::lock_guard lock(mutex_);
    if (state.pending_delete) pending_deletes_.erase(node);
  }
  void Forget(const std::string& node) {
    const std::lock_guard lock(mutex_);
    pending_deletes_.erase(node);
    known_since_.erase(node);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::set<kube::ObjectKey>> objects_;
  std::set<std::string> pending_deletes_;
  std::map<std::string, base::SteadyClock::time_point> known_since_;
};

kube::ControllerOptions Settings(const MasterConfig& config) {
  kube::ControllerOptions options;
  options.name = "nfd-master";
  options.workers = config.parallelism;
  return options;
}

kube::WriteOptions AsMaster() {
  kube::WriteOptions options;
  options.field_manager = "nfd-master";
  return options;
}

class Master {
 public:
  Master(std::shared_ptr<kube::Client> client, const MasterConfig& config)
      : client_(std::move(client)),
        config_(config),
        features_(client_, kNodeFeatures, NodeFeatureProjection(), InPages(config.page_size)),
        nodes_(client_, kube::kNodes, NodeProjection(), InPages(config.page_size)),
        controller_(Settings(config),
                    [this](const kube::ObjectKey& key, const io::StopToken& stop) {
                      return Reconcile(key, stop);
                    }) {
    controller_.Watch<NodeFeatureView>(
        features_, [this](const kube::Change<NodeFeatureView>& change, const auto& enqueue) {
          if (change.now && change.now->node_name.empty()) {
            base::LogError("A NodeFeature without its node's name is left out",
                           {{"object", change.key.ToString()}, {"label", kNodeNameLabel}});
          }
          for (const auto& node : index_.Apply(change)) enqueue({"", node});
        });
    controller_.Watch<NodeView>(
        nodes_, [](const kube::Change<NodeView>& change, const auto& enqueue) {
          const bool same = change.before && change.now && *change.before == *change.now;
          if (!same) enqueue(change.key);
        });
  }

  base::Status Run(const io::StopToken& stop) { return controller_.Run(stop); }

 private:
  base::Result<kube::Action> Reconcile(const kube::ObjectKey& key, const io::StopToken& stop) {
    const auto state = index_.Look(key.name);
    std::vector<KeyedNodeFeature> objects;
    bool complete = true;
    for (const auto& object : state.objects) {
      const auto view = features_.store().Find(object);
      if (view.is_present()) objects.push_back({object, **view.value()});
      if (view.is_unknown()) complete = false;
    }
    // A label is removed only when it is known that nothing asks for it: not while an object cannot
    // be read, and not from a node for which there is no object at all, unless one was seen to go
    // or none came within a resync period (8.5): worker and master may be replaced together.
    const bool recent = config_.resync_period.count() <= 0 ||
                        base::SteadyClock::now() - state.known_since < config_.resync_period;
    const bool first_sight = objects.empty() && !state.pending_delete && recent;
    const auto filtered = FilterLabels(MergeLabels(std::move(objects), config_), config_);
    for (const auto& rejected : filtered.rejected) {
      base::LogWarning("A label is not put on the node", rejected, {{"node", key.name}});
    }
    if (config_.no_publish) return kube::Action::Done();

    const auto node = client_->Get(kube::kNodes, key, stop);
    if (!node) {
      if (node.error().code != base::Code::kNotFound) return base::Fail(node.error());
      index_.Forget(key.name);
      return kube::Action::Done();
    }
    const auto patch = PlanNodePatch(*node, filtered.labels, first_sight || !complete, config_);
    if (patch) {
      auto patched =
          client_->Patch(kube::kNodes, key, kube::PatchType::kMerge, *patch, AsMaster(), stop);
      if (!patched) {
        if (patched.error().code != base::Code::kNotFound) return base::Fail(patched.error());
        index_.Forget(key.name);
        return kube::Action::Done();
      }
      base::LogInfo("The node's labels are written",
                    {{"node", key.name}, {"labels", filtered.labels.size()}});
    }
    index_.Processed(key.name, state);
    if (config_.resync_period.count() <= 0) return kube::Action::Done();
    return kube::Action::RequeueAfter(config_.resync_period);
  }

  std::shared_ptr<kube::Client> client_;
  const MasterConfig& config_;
  NodeIndex index_;
  kube::Informer<NodeFeatureView> features_;
  kube::Informer<NodeView> nodes_;
  kube::Controller controller_;
};

}  // namespace

base::Status RunMaster(std::shared_ptr<kube::Client> client, const MasterConfig& config,
                       const io::StopToken& stop) {
  return Master(std::move(client), config).Run(stop);
}

base::Status PruneNodes(kube::Client& client, const MasterConfig& config,
                        const io::StopToken& stop) {
  if (config.no_publish) return {};
  TRY_ASSIGN(const auto nodes, client.List(kube::kNodes, "", {}, stop));
  for (const auto& node : nodes.items) {
    const auto patch = PlanPrune(node, config);
    if (!patch) continue;
    const auto patched = client.Patch(kube::kNodes, kube::KeyOf(node), kube::PatchType::kMerge,
                                      *patch, AsMaster(), stop);
    if (!patched && patched.error().code != base::Code::kNotFound) {
      return base::Fail(patched.error());
    }
  }
  return {};
}

}  // namespace pitcrew::node::nfd
