#include "apiserver/test_node.h"

#include <gtest/gtest.h>

#include <atomic>
#include <utility>

#include "kube/projection.h"
#include "support/patience.h"

namespace pitcrew::testing {
namespace {

using codec::Json;

}  // namespace

TestNode::TestNode(std::shared_ptr<kube::Client> client, std::string state)
    : client_(std::move(client)), state_(std::move(state)) {
  static std::atomic<int> counter = 0;
  const auto number = std::to_string(++counter);
  name_ = "node-under-test-" + number;
  namespace_ = "space-under-test-" + number;
  const auto make = [this](const kube::ResourceKind& kind, const Json& object) {
    const auto made = client_->Create(kind, object);
    EXPECT_TRUE(made) << made.error().message;
  };
  make(kube::kNamespaces, {{"metadata", {{"name", namespace_}}}});
  make(kube::kServiceAccounts, {{"metadata", {{"name", "default"}, {"namespace", namespace_}}}});
  make(kube::kNodes, {{"metadata", {{"name", name_}}}});
  kube::InformerOptions only;
  only.field_selector = "metadata.name=" + name_;
  informer_ = std::make_unique<kube::Informer<Json>>(
      client_, kube::kNodes,
      kube::ProjectJson<Json>([](const Json& node) -> base::Result<Json> { return node; }), only);
  informer_->AddHandler([this](const kube::Change<Json>& change) {
    if (!change.now) return;
    const std::lock_guard lock(mutex_);
    now_ = *change.now;
    const auto value = codec::FindString(now_, {"metadata", "labels", state_});
    if (!value.empty() && last_ != value) seen_.push_back(value);
    last_ = value;
    changed_.notify_all();
  });
  informer_->Start();
  EXPECT_TRUE(informer_->WaitUntilSynced({}));
}

TestNode::~TestNode() = default;

void TestNode::Label(std::string_view label, const std::optional<std::string>& value) {
  const Json labels = {{std::string(label), value ? Json(*value) : Json()}};
  const auto sent = client_->Patch(kube::kNodes, {"", name_}, kube::PatchType::kMerge,
                                   {{"metadata", {{"labels", labels}}}});
  ASSERT_TRUE(sent) << sent.error().message;
}

std::string TestNode::LabelOf(std::string_view label) {
  const auto node = client_->Get(kube::kNodes, {"", name_});
  EXPECT_TRUE(node) << node.error().message;
  return codec::FindString(*node, {"metadata", "labels", label});
}

std::string TestNode::AnnotationOf(std::string_view annotation) {
  const auto node = client_->Get(kube::kNodes, {"", name_});
  EXPECT_TRUE(node) << node.error().message;
  return codec::FindString(*node, {"metadata", "annotations", annotation});
}

void TestNode::MakePod(const std::string& name, const std::string& app) {
  const auto made = client_->Create(
      kube::kPods,
      {{"metadata", {{"name", name}, {"namespace", namespace_}, {"labels", {{"app", app}}}}},
       {"spec",
        {{"nodeName", name_},
         {"terminationGracePeriodSeconds", 0},
         {"containers", Json::array({{{"name", "c"}, {"image", "i"}}})}}}});
  ASSERT_TRUE(made) << made.error().message;
}

void TestNode::DeletePod(const std::string& name) {
  kube::DeleteOptions at_once;
  at_once.grace_period_seconds = 0;
  const auto deleted = client_->Delete(kube::kPods, {namespace_, name}, at_once);
  ASSERT_TRUE(deleted) << deleted.error().message;
}

std::vector<std::string> TestNode::StatesUntil(const std::string& last) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, test_support::kPatience,
                    [&] { return !seen_.empty() && seen_.back() == last; });
  return std::exchange(seen_, {});
}

bool TestNode::WaitUntil(const std::function<bool(const Json& node)>& holds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, test_support::kPatience,
                           [&] { return !now_.is_null() && holds(now_); });
}

std::vector<std::string> TestNode::EventReasons() {
  const auto events = client_->List(kube::kEvents, "default");
  EXPECT_TRUE(events) << events.error().message;
  std::vector<std::string> reasons;
  for (const auto& event : events->items) {
    if (codec::FindString(event, {"involvedObject", "name"}) == name_) {
      reasons.push_back(codec::FindString(event, {"reason"}));
    }
  }
  return reasons;
}

}  // namespace pitcrew::testing
