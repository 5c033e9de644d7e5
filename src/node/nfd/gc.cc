#include "node/nfd/gc.h"

#include <fmt/format.h>

#include <set>

#include "base/log.h"
#include "kube/controller.h"
#include "kube/informer.h"
#include "node/nfd/resources.h"
#include "node/nfd/views.h"

namespace pitcrew::node::nfd {
namespace {

kube::ControllerOptions Settings() {
  kube::ControllerOptions options;
  options.name = "nfd-gc";
  return options;
}

kube::ListOptions Selecting(std::string label_selector, std::string field_selector) {
  kube::ListOptions options;
  options.label_selector = std::move(label_selector);
  options.field_selector = std::move(field_selector);
  return options;
}

kube::DeleteOptions OnlyIf(std::string uid) {
  kube::DeleteOptions options;
  options.uid = std::move(uid);
  return options;
}

// One key is one node; the empty name is the pass over all objects.
class Gc {
 public:
  Gc(std::shared_ptr<kube::Client> client, const GcConfig& config)
      : client_(std::move(client)),
        config_(config),
        nodes_(client_, kube::kNodes, NodeProjection(), InPages(config.page_size)),
        controller_(Settings(), [this](const kube::ObjectKey& key, const io::StopToken& stop) {
          return key.name.empty() ? FullPass(stop) : Collect(key.name, stop);
        }) {
    controller_.Watch<NodeView>(nodes_,
                                [](const kube::Change<NodeView>& change, const auto& enqueue) {
                                  if (change.kind == kube::ChangeKind::kDeleted)
                                    enqueue(change.key);
                                });
    controller_.Enqueue({});
  }

  base::Status Run(const io::StopToken& stop) { return controller_.Run(stop); }

 private:
  base::Result<kube::Action> FullPass(const io::StopToken& stop) {
    kube::ListOptions options;
    options.page_size = config_.page_size;
    TRY_ASSIGN(const auto objects, client_->List(kNodeFeatures, "", options, stop));
    std::set<std::string> gone;
    for (const auto& object : objects.items) {
      const auto node = codec::FindString(object, {"metadata", "labels", kNodeNameLabel});
      if (node.empty()) {
        base::LogWarning("A NodeFeature does not name its node and is left alone",
                         {{"object", kube::KeyOf(object).ToString()}});
      } else if (nodes_.store().Find({"", node}).is_absent()) {
        gone.insert(node);
      }
    }
    for (const auto& node : gone) controller_.Enqueue({"", node});
    if (config_.interval.count() <= 0) return kube::Action::Done();
    return kube::Action::RequeueAfter(config_.interval);
  }

  base::Result<kube::Action> Collect(const std::string& node, const io::StopToken& stop) {
    // The store may lag behind: a node that joined a moment ago must keep its object.
    TRY_ASSIGN(const auto alive,
               client_->List(kube::kNodes, "", Selecting("", "metadata.name=" + node), stop));
    if (!alive.items.empty()) return kube::Action::Done();
    TRY_ASSIGN(const auto objects,
               client_->List(kNodeFeatures, "",
                             Selecting(fmt::format("{}={}", kNodeNameLabel, node), ""), stop));
    for (const auto& object : objects.items) {
      const auto deleted =
          client_->Delete(kNodeFeatures, kube::KeyOf(object),
                          OnlyIf(codec::FindString(object, {"metadata", "uid"})), stop);
      if (!deleted && deleted.error().code != base::Code::kNotFound &&
          deleted.error().code != base::Code::kConflict) {
        return base::Fail(deleted.error());
      }
      base::LogInfo("A NodeFeature of a node that is gone is deleted",
                    {{"object", kube::KeyOf(object).ToString()}, {"node", node}});
    }
    return kube::Action::Done();
  }

  std::shared_ptr<kube::Client> client_;
  GcConfig config_;
  kube::Informer<NodeView> nodes_;
  kube::Controller controller_;
};

}  // namespace

base::Status RunGc(std::shared_ptr<kube::Client> client, const GcConfig& config,
                   const io::StopToken& stop) {
  return Gc(std::move(client), config).Run(stop);
}

}  // namespace pitcrew::node::nfd
