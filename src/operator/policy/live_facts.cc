#include "operator/policy/live_facts.h"

#include <algorithm>

#include "base/log.h"
#include "desired/cluster_kinds.h"
#include "desired/owned_object.h"
#include "kube/projection.h"

namespace pitcrew::gpu_operator {

using codec::Json;

LiveFacts::LiveFacts(World& world, std::function<void()> changed)
    : world_(world),
      changed_(std::move(changed)),
      kubernetes_version_(world.identity.kubernetes_version) {
  if (world_.identity.openshift_version.empty()) return;
  openshift_version_.emplace(world_.client, desired::kClusterVersions, desired::kClusterVersionKey,
                             kube::ProjectJson<std::string>(desired::OpenShiftVersionOf), changed_);
  driver_toolkit_.emplace(world_.client, desired::kImageStreams, desired::kDriverToolkitKey,
                          kube::ProjectJson<desired::DriverToolkit>(
                              [](const Json& object) -> base::Result<desired::DriverToolkit> {
                                return desired::DriverToolkitOf(object);
                              }),
                          changed_);
  proxy_.emplace(
      world_.client, desired::kProxies, desired::kClusterProxyKey,
      kube::ProjectJson<desired::Proxy>([](const Json& object) -> base::Result<desired::Proxy> {
        return desired::ProxyOf(object);
      }),
      changed_);
}

void LiveFacts::ReadServerVersion(const io::StopToken& stop) {
  const std::uint64_t openings = openings_;
  if (openings == version_read_at_) return;
  const auto version = world_.client->Version(stop);
  if (!version) {
    // The version read before stands until the server can be asked: the next pass does.
    base::LogWarning("the server's version cannot be read", version.error());
    return;
  }
  version_read_at_ = openings;
  if (version->git_version == kubernetes_version_) return;
  base::LogInfo("the server's version has changed",
                {{"from", kubernetes_version_}, {"to", version->git_version}});
  kubernetes_version_ = version->git_version;
}

base::Result<desired::Facts> LiveFacts::Gather(const desired::References& references,
                                               const io::StopToken& stop) {
  ReadServerVersion(stop);
  desired::Facts facts = world_.NodeFacts();
  facts.kubernetes_version = kubernetes_version_;
  if (openshift_version_) {
    // While an upgrade runs, or nothing can be read, the last version that was completed stands.
    const auto version = openshift_version_->Get(stop);
    if (version.is_present()) facts.openshift_version = *version.value();
  }
  std::erase_if(secrets_, [&](const auto& entry) {
    return std::ranges::find(references.secrets, entry.first) == references.secrets.end();
  });
  const desired::FactSource source{
      .driver_toolkit = [&] { return driver_toolkit_->Get(stop); },
      .proxy = [&] { return proxy_->Get(stop); },
      .config_map =
          [&](const std::string& name) {
            const auto found =
                world_.inventory.StoreOf(kube::kConfigMaps)
                    ->Find({.namespace_name = world_.operator_namespace, .name = name});
            return desired::Transform(found, [](const auto& object) {
              return desired::ConfigMapData{.keys = object->keys, .digest = object->data_digest};
            });
          },
      .secret =
          [&](const std::string& name) {
            std::unique_ptr<NamedObject<std::string>>& secret = secrets_[name];
            if (secret == nullptr) {
              secret = std::make_unique<NamedObject<std::string>>(
                  world_.client, kube::kSecrets,
                  kube::ObjectKey{.namespace_name = world_.operator_namespace, .name = name},
                  kube::ProjectJson<std::string>(
                      [](const Json& object) -> base::Result<std::string> {
                        return desired::SecretDigest(object);
                      }),
                  changed_);
            }
            return secret->Get(stop);
          }};
  return desired::CompleteFacts(std::move(facts), references, source);
}

}  // namespace pitcrew::gpu_operator
