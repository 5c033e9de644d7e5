// Where the page of a metrics exporter is.
#include "operator/upgrade/metrics_looks.h"

#include <gtest/gtest.h>

#include "codec/yaml.h"

namespace pitcrew::gpu_operator {
namespace {

std::string Url(const std::string& containers, const std::string& address = "10.0.0.7",
                const std::string& ready = "True", const std::string& metadata = "{}") {
  return MetricsUrlOf(*codec::ParseYaml(
      "{metadata: " + metadata + ", spec: {containers: " + containers + "}, status: {podIP: '" +
      address + "', conditions: [{type: Ready, status: '" + ready + "'}]}}"));
}

TEST(MetricsUrl, NamesAddressAndPort) {
  EXPECT_EQ(Url("[{ports: [{name: metrics, containerPort: 9500}]}]"),
            "http://10.0.0.7:9500/metrics");
  EXPECT_EQ(Url("[{ports: [{containerPort: 1}]}, {ports: [{containerPort: 2}, {name: metrics, "
                "containerPort: 3}]}]"),
            "http://10.0.0.7:3/metrics");
  EXPECT_EQ(Url("[{ports: [{name: web, containerPort: 1}]}]"), "http://10.0.0.7:1/metrics");
  EXPECT_EQ(Url("[{}]"), "http://10.0.0.7:9400/metrics");
  EXPECT_EQ(Url("[{}]", "fd00::7"), "http://[fd00::7]:9400/metrics");
}

TEST(MetricsUrl, IsNoneUntilThePodIsReady) {
  EXPECT_EQ(Url("[{}]", ""), "");
  EXPECT_EQ(Url("[{}]", "10.0.0.7", "False"), "");
  EXPECT_EQ(Url("[{}]", "10.0.0.7", "True", "{deletionTimestamp: '2026-03-02T12:00:00Z'}"), "");
  EXPECT_EQ(MetricsUrlOf(codec::Json::object()), "");
}

}  // namespace
}  // namespace pitcrew::gpu_operator
