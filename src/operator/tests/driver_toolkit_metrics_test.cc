// What is told of OpenShift's driver toolkit (reference operator-behaviour.md section 2).
#include "operator/metrics/driver_toolkit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace pitcrew::gpu_operator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// A cluster whose drivers are built with the toolkit, and which has all of it.
struct ToolkitCluster {
  api::ClusterPolicy policy;
  desired::Facts facts;

  ToolkitCluster() {
    facts.openshift_version = "4.18";
    facts.gpu_nodes = 2;
    facts.rhcos_versions = {"418.1", "418.2"};
    facts.driver_toolkit = {.image_stream_exists = true,
                            .images = {{"418.1", "toolkit:1"}, {"418.2", "toolkit:2"}}};
  }
  // Those that are not 0.
  [[nodiscard]] std::map<std::string, int> Told() const {
    std::map<std::string, int> told;
    for (const auto& [name, value] : DriverToolkitMetrics(policy, facts)) {
      if (value != 0) told.emplace(name, value);
    }
    return told;
  }
};

TEST(DriverToolkitMetrics, AreNoneWhereNobodyAsksForIt) {
  ToolkitCluster elsewhere;
  elsewhere.facts.openshift_version = "";
  elsewhere.facts.driver_toolkit = {.broken = true, .images = {}};
  elsewhere.facts.rhcos_versions.clear();
  EXPECT_THAT(elsewhere.Told(), IsEmpty());
  ToolkitCluster off;
  off.policy.operator_settings.use_driver_toolkit = false;
  EXPECT_THAT(off.Told(), IsEmpty());
  ToolkitCluster precompiled;
  precompiled.policy.driver.use_precompiled = true;
  EXPECT_THAT(precompiled.Told(), IsEmpty());
}

TEST(DriverToolkitMetrics, SayWhatItLacks) {
  EXPECT_THAT(ToolkitCluster().Told(), ElementsAre(Pair("enabled", 1)));
  ToolkitCluster no_stream;
  no_stream.facts.driver_toolkit = {};
  EXPECT_THAT(no_stream.Told(), ElementsAre(Pair("enabled", -1), Pair("imagestream_missing", 1)));
  ToolkitCluster no_versions;
  no_versions.facts.rhcos_versions.clear();
  EXPECT_THAT(no_versions.Told(), ElementsAre(Pair("enabled", -1), Pair("nfd_too_old", 1)));
  no_versions.facts.gpu_nodes = 0;
  EXPECT_THAT(no_versions.Told(), ElementsAre(Pair("enabled", -1)));
  ToolkitCluster no_tag;
  no_tag.facts.driver_toolkit.images.erase("418.2");
  EXPECT_THAT(no_tag.Told(), ElementsAre(Pair("enabled", 1), Pair("rhcos_tags_missing", 1)));
  ToolkitCluster broken;
  broken.facts.driver_toolkit.broken = true;
  EXPECT_THAT(broken.Told(), ElementsAre(Pair("enabled", 1), Pair("imagestream_broken", 1)));
}

}  // namespace
}  // namespace pitcrew::gpu_operator
