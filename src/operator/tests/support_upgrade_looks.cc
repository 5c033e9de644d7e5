// What tests see of upgrades.
#include <algorithm>

#include "api/labels.h"
#include "api/upgrade_state.h"
#include "base/strings.h"
#include "kube/projection.h"
#include "support_upgrade.h"
#include "tests/support/patience.h"

namespace pitcrew::gpu_operator::testing {

base::Result<LabelHistory::Seen> LabelHistory::Read(const Json& node) {
  return Seen{
      .state = codec::FindString(node, {"metadata", "labels", api::kUpgradeState}),
      .version = base::ParseUnsigned(codec::FindString(node, {"metadata", "resourceVersion"}))
                     .value_or(0)};
}

LabelHistory::LabelHistory(const std::shared_ptr<kube::Client>& client)
    : client_(client), informer_(client, kube::kNodes, kube::ProjectJson<Seen>(Read)) {
  informer_.AddHandler([this](const kube::Change<Seen>& change) {
    {
      const std::lock_guard lock(mutex_);
      const Seen now = change.now == nullptr ? Seen{} : *change.now;
      auto& values = values_[change.key.name];
      if (values.empty() ? !now.state.empty() : values.back() != now.state) {
        values.push_back(now.state);
      }
      const auto state = api::UpgradeStateNamed(now.state);
      if (api::IsUnderWay(state)) {
        under_way_.insert(change.key.name);
      } else {
        under_way_.erase(change.key.name);
      }
      most_ = std::max(most_, static_cast<int>(under_way_.size()));
      versions_[change.key.name] = now.version;
    }
    changed_.notify_all();
  });
  informer_.Start();
  EXPECT_TRUE(informer_.WaitUntilSynced({}));
}

std::vector<std::string> LabelHistory::Of(const std::string& node) const {
  const auto live = client_->Get(kube::kNodes, {"", node});
  const std::uint64_t version = live ? Read(*live)->version : 0;
  std::unique_lock lock(mutex_);
  const auto told = [&] {
    const auto found = versions_.find(node);
    return version == 0 || (found != versions_.end() && found->second >= version);
  };
  EXPECT_TRUE(changed_.wait_for(lock, test_support::kPatience, told)) << node;
  const auto found = values_.find(node);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

int LabelHistory::MostUnderWay() const {
  const std::lock_guard lock(mutex_);
  return most_;
}

std::string UpgradeTest::StateOf(const std::string& node) const {
  return Label(node, std::string(api::kUpgradeState));
}

bool UpgradeTest::IsLookedAtAgain(const RunningOperator& running, const std::string& node) {
  Play();
  const auto reconciles = [&] {
    return running.Value(
        "controller_runtime_reconcile_total{controller=\"driver-upgrades\",result=\"success\"}");
  };
  const double before = reconciles();
  const std::string value = std::to_string(before);
  SetNode(node, {{"metadata", {{"labels", {{std::string(api::kUpgradeSkip), value}}}}}});
  return Eventually([&] { return reconciles() > before; });
}

bool UpgradeTest::IsCordoned(const std::string& node) const {
  const auto object = client_->Get(kube::kNodes, Cluster(node));
  const Json* cordoned = object ? codec::Find(*object, {"spec", "unschedulable"}) : nullptr;
  return cordoned != nullptr && *cordoned == true;
}

std::vector<std::string> UpgradeTest::Traces(const std::string& node) const {
  std::vector<std::string> keys;
  const auto object = client_->Get(kube::kNodes, Cluster(node));
  const Json* annotations = object ? codec::Find(*object, {"metadata", "annotations"}) : nullptr;
  if (annotations == nullptr) return keys;
  for (const auto& [key, value] : annotations->items()) {
    if (key.starts_with("nvidia.com/gpu-driver-upgrade") && key != api::kUpgradeEnabledAnnotation &&
        key != api::kUpgradeLastAnnotation) {
      keys.push_back(key);
    }
  }
  return keys;
}

std::vector<std::string> UpgradeTest::EventsOf(const std::string& node) const {
  std::vector<std::string> told;
  const auto events =
      client_->List(kube::kEvents, "default", {.field_selector = "involvedObject.name=" + node});
  if (!events) return told;
  for (const Json& event : events->items) {
    told.push_back(codec::FindString(event, {"type"}) + " " + codec::FindString(event, {"reason"}) +
                   " " + codec::FindString(event, {"message"}));
  }
  return told;
}

}  // namespace pitcrew::gpu_operator::testing
