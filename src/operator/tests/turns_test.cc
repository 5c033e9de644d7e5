// Turns of several pools in one pass (driver-lifecycle.md section 2.7).
#include "operator/upgrade/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "api/labels.h"

namespace pitcrew::gpu_operator {
namespace {

using ::testing::HasSubstr;

class TurnsOfNodes : public ::testing::Test {
 protected:
  static std::shared_ptr<const desired::Node> Node(
      const std::map<std::string, std::string>& labels) {
    desired::Node node;
    node.name = "a";
    for (const auto& [key, value] : labels) node.labels.Add(key, value);
    return std::make_shared<const desired::Node>(std::move(node));
  }
  static std::shared_ptr<const desired::Node> Changed(
      const desired::Node& node, const std::function<void(desired::Node&)>& change) {
    desired::Node changed = node;
    change(changed);
    return std::make_shared<const desired::Node>(std::move(changed));
  }
  bool Note(std::shared_ptr<const desired::Node> before, std::shared_ptr<const desired::Node> now) {
    return turns_.Note({.key = {.namespace_name = "", .name = "a"},
                        .before = std::move(before),
                        .now = std::move(now)});
  }

  int told_ = 0;
  std::shared_ptr<kube::Client> client_ = *kube::Client::Create({.server = "http://127.0.0.1:1"});
  World world_{client_, "gpu-operator", {}};
  Metrics metrics_;
  kube::EventRecorder events_{client_, "test", "test"};
  DriverPods pods_{world_};
  ImageChecks image_checks_{world_, events_, pods_};
  Turns turns_{world_, metrics_, pods_, image_checks_, [this] { ++told_; }};
};

TEST_F(TurnsOfNodes, WhatTheLimitsGoByConcernsOthers) {
  const auto node = Node({{"zone", "1"}});
  EXPECT_TRUE(Note(nullptr, node)) << "it has come";
  EXPECT_TRUE(Note(node, nullptr)) << "it has gone";
  EXPECT_FALSE(Note(node, node));
  EXPECT_FALSE(Note(node, Changed(*node, [](desired::Node& now) { now.offers_gpu = true; })));
  EXPECT_TRUE(Note(node, Node({{"zone", "2"}})));
  EXPECT_TRUE(Note(node, Changed(*node, [](desired::Node& now) { now.unschedulable = true; })));
  EXPECT_TRUE(Note(node, Changed(*node, [](desired::Node& now) { now.not_ready = true; })));
  EXPECT_TRUE(
      Note(node, Changed(*node,
                         [](desired::Node& now) {
                           now.upgrade = std::make_shared<const desired::UpgradeAnnotations>(
                               desired::UpgradeAnnotations{
                                   {std::string(api::kUpgradeMetricsAnnotation), "worse"}});
                         })))
      << "what metrics say of it";
}

// Told of when there is a first one, and when there is none any more.
TEST_F(TurnsOfNodes, UpgradesOfDriverObjectsAreIncompleteWhileANodeIs) {
  const auto in_state = [](const std::string& state) {
    return Node(
        {{std::string(api::kDriverOwner), "own"}, {std::string(api::kUpgradeState), state}});
  };
  const auto waits = in_state("upgrade-required");
  Note(nullptr, in_state("upgrade-done"));
  EXPECT_FALSE(turns_.incomplete());
  EXPECT_EQ(told_, 0);
  Note(nullptr, waits);
  EXPECT_TRUE(turns_.incomplete());
  EXPECT_EQ(told_, 1);
  Note(waits, in_state("upgrade-failed"));
  EXPECT_TRUE(turns_.incomplete());
  EXPECT_EQ(told_, 1);
  Note(waits, in_state("upgrade-done"));
  EXPECT_FALSE(turns_.incomplete());
  EXPECT_EQ(told_, 2);
  Note(nullptr, waits);
  Note(waits, nullptr);
  EXPECT_FALSE(turns_.incomplete()) << "its node is gone";
  EXPECT_EQ(told_, 4);
  Note(nullptr, Node({{std::string(api::kDriverOwner), "own"}}));
  EXPECT_FALSE(turns_.incomplete()) << "it has no state yet";
  EXPECT_EQ(told_, 4);
}

TEST_F(TurnsOfNodes, AMissingImageIsNewsOnce) {
  const Turns::MissingImage missing{.image = "i:1", .container = "driver", .version = "7"};
  EXPECT_FALSE(turns_.NoteMissingImage("a", {})) << "there was none";
  EXPECT_TRUE(turns_.NoteMissingImage("a", missing));
  EXPECT_FALSE(turns_.NoteMissingImage("a", missing));
  EXPECT_TRUE(turns_.NoteMissingImage("b", missing)) << "of another node";
  Turns::MissingImage other = missing;
  other.version = "8";
  EXPECT_TRUE(turns_.NoteMissingImage("a", other));
  EXPECT_TRUE(turns_.NoteMissingImage("a", {}));
  EXPECT_FALSE(turns_.NoteMissingImage("a", {})) << "it is forgotten";
}

// The order of one driver goes by a label that is not read yet: for the others, and for what is
// measured, that is no reason to wait.
TEST(Turns, APoolWhoseOrderIsNotKnownYetHoldsNoOther) {
  const auto client = kube::Client::Create({.server = "http://127.0.0.1:1"});
  ASSERT_TRUE(client);
  World world(*client, "gpu-operator", {});
  Metrics metrics;
  kube::EventRecorder events(*client, "test", "test");
  const DriverPods pods(world);
  ImageChecks image_checks(world, events, pods);
  Turns turns(world, metrics, pods, image_checks, [] {});
  UpgradePool ordered;
  ordered.driver = "ordered";
  ordered.enabled = true;
  ordered.policy.schedule.order.label = "example.com/zone";
  UpgradePool other;
  other.driver = "other";
  other.enabled = other.unclear = true;
  other.problem = "told";
  const auto given = turns.Give({ordered, other}, {});
  ASSERT_FALSE(given) << "the first is asked again";
  EXPECT_EQ(given.error().reason, "NodeLabelsNotRead");
  EXPECT_EQ(turns.stopped("other"), "told");
  EXPECT_THAT(metrics.Render(), HasSubstr("gpu_operator_driver_auto_upgrade_enabled 1\n"));
}

}  // namespace
}  // namespace pitcrew::gpu_operator
