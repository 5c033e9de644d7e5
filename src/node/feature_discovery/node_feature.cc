#include <fmt/format.h>

#include <optional>

#include "api/labels.h"
#include "base/log.h"
#include "node/feature_discovery/output.h"
#include "node/node_feature/node_feature.h"

namespace pitcrew::node::feature_discovery {
namespace {

using base::Status;
using codec::Json;

class ToNodeFeature final : public Output {
 public:
  ToNodeFeature(std::shared_ptr<kube::Client> client, const Options& options)
      : client_(std::move(client)),
        node_(options.node_name),
        pod_(options.pod_name),
        key_{options.namespace_name, fmt::format("nvidia-features-for-{}", options.node_name)},
        writer_(client_, key_) {}

  Status Publish(const Labels& labels, const io::StopToken& stop) override {
    if (!owners_) owners_ = FindOwners(stop);
    const auto wanted = MakeNodeFeature(node_, key_.namespace_name, *owners_, labels);
    TRY_ASSIGN(const auto outcome, writer_.Publish(wanted, stop));
    if (outcome != node_feature::Outcome::kUnchanged) {
      base::LogInfo(outcome == node_feature::Outcome::kCreated ? "created the NodeFeature"
                                                               : "updated the NodeFeature",
                    {{"name", key_.ToString()}});
    }
    return {};
  }

 private:
  // None is better than no labels: the object is then deleted by node feature discovery's garbage
  // collector.
  Json FindOwners(const io::StopToken& stop) {
    if (pod_.empty()) return Json::array();
    const auto pod = client_->Get(kube::kPods, {key_.namespace_name, pod_}, stop);
    if (pod) return OwnersOf(*pod);
    base::LogWarning("the NodeFeature gets no owner: this pod cannot be read", pod.error());
    return Json::array();
  }

  const std::shared_ptr<kube::Client> client_;
  const std::string node_;
  const std::string pod_;
  const kube::ObjectKey key_;
  const node_feature::Writer writer_;
  std::optional<Json> owners_;  // found out once
};

}  // namespace

std::unique_ptr<Output> NodeFeatureOutput(std::shared_ptr<kube::Client> client,
                                          const Options& options) {
  return std::make_unique<ToNodeFeature>(std::move(client), options);
}

Json MakeNodeFeature(const std::string& node, const std::string& namespace_name,
                     const Json& owner_references, const Labels& labels) {
  Json features = {
      {"flags", Json::object()}, {"attributes", Json::object()}, {"instances", Json::object()}};
  Json metadata = {{"name", fmt::format("nvidia-features-for-{}", node)},
                   {"namespace", namespace_name},
                   {"labels", {{std::string(api::kNfdNodeNameLabel), node}}},
                   {"ownerReferences", owner_references}};
  return {{"apiVersion", node_feature::kNodeFeatures.api_version()},
          {"kind", node_feature::kNodeFeatures.kind},
          {"metadata", std::move(metadata)},
          {"spec", {{"features", std::move(features)}, {"labels", labels}}}};
}

Json OwnersOf(const Json& pod) {
  Json owners = Json::array();
  const Json* references = codec::Find(pod, {"metadata", "ownerReferences"});
  if (references == nullptr) return owners;
  for (const auto& reference : *references) {
    if (codec::FindString(reference, {"kind"}) != "DaemonSet") continue;
    owners.push_back({{"apiVersion", codec::FindString(reference, {"apiVersion"})},
                      {"kind", "DaemonSet"},
                      {"name", codec::FindString(reference, {"name"})},
                      {"uid", codec::FindString(reference, {"uid"})},
                      {"controller", true}});
    owners.push_back({{"apiVersion", "v1"},
                      {"kind", "Pod"},
                      {"name", codec::FindString(pod, {"metadata", "name"})},
                      {"uid", codec::FindString(pod, {"metadata", "uid"})}});
    break;
  }
  return owners;
}

}  // namespace pitcrew::node::feature_discovery
