#include <fmt/format.h>

#include <optional>

#include "api/labels.h"
#include "base/log.h"
#include "kube/resource.h"
#include "node/feature_discovery/output.h"

namespace pitcrew::node::feature_discovery {
namespace {

using base::Status;
using codec::Json;

constexpr kube::ResourceKind kNodeFeatures{"nfd.k8s-sigs.io", "v1alpha1", "nodefeatures",
                                           "NodeFeature"};
// Somebody else writes the object only when an old pod is on its way out.
constexpr int kMostConflicts = 5;

bool IsEmpty(const Json* value) { return value == nullptr || value->is_null() || value->empty(); }

bool SameMember(const Json& a, const Json& b, std::initializer_list<std::string_view> path) {
  const Json* in_a = codec::Find(a, path);
  const Json* in_b = codec::Find(b, path);
  if (IsEmpty(in_a) || IsEmpty(in_b)) return IsEmpty(in_a) && IsEmpty(in_b);
  return *in_a == *in_b;
}

class ToNodeFeature final : public Output {
 public:
  ToNodeFeature(std::shared_ptr<kube::Client> client, const Options& options)
      : client_(std::move(client)),
        node_(options.node_name),
        pod_(options.pod_name),
        key_{options.namespace_name, fmt::format("nvidia-features-for-{}", options.node_name)} {}

  Status Publish(const Labels& labels, const io::StopToken& stop) override {
    if (!owners_) owners_ = FindOwners(stop);
    const auto wanted = MakeNodeFeature(node_, key_.namespace_name, *owners_, labels);
    for (int attempt = 1;; ++attempt) {
      const auto done = PublishOnce(wanted, stop);
      if (done) return done;
      const auto code = done.error().code;
      const bool raced = code == base::Code::kConflict || code == base::Code::kExists;
      if (!raced || attempt == kMostConflicts) {
        return base::Fail(done.error().Within(fmt::format("NodeFeature {}", key_.ToString())));
      }
    }
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

  Status PublishOnce(const Json& wanted, const io::StopToken& stop) {
    auto live = client_->Get(kNodeFeatures, key_, stop);
    if (!live && live.error().code != base::Code::kNotFound) return base::Fail(live.error());
    if (!live) {
      TRY(client_->Create(kNodeFeatures, wanted, {}, stop));
      base::LogInfo("created the NodeFeature", {{"name", key_.ToString()}});
      return {};
    }
    if (SaysTheSame(*live, wanted)) return {};
    auto changed = *std::move(live);
    changed["spec"] = wanted.at("spec");
    changed["metadata"]["labels"] = wanted.at("metadata").at("labels");
    changed["metadata"]["ownerReferences"] = wanted.at("metadata").at("ownerReferences");
    TRY(client_->Update(kNodeFeatures, changed, {}, stop));
    base::LogInfo("updated the NodeFeature", {{"name", key_.ToString()}});
    return {};
  }

  const std::shared_ptr<kube::Client> client_;
  const std::string node_;
  const std::string pod_;
  const kube::ObjectKey key_;
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
  return {{"apiVersion", kNodeFeatures.api_version()},
          {"kind", kNodeFeatures.kind},
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

bool SaysTheSame(const Json& live, const Json& wanted) {
  return SameMember(live, wanted, {"metadata", "labels"}) &&
         SameMember(live, wanted, {"metadata", "ownerReferences"}) &&
         SameMember(live, wanted, {"spec", "labels"}) &&
         SameMember(live, wanted, {"spec", "features", "flags"}) &&
         SameMember(live, wanted, {"spec", "features", "attributes"}) &&
         SameMember(live, wanted, {"spec", "features", "instances"});
}

}  // namespace pitcrew::node::feature_discovery
