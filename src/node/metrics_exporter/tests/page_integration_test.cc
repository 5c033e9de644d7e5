// The page beside a kubelet that comes and goes; the whole program does not tell when it was asked.
#include "node/metrics_exporter/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/testing/fake_pod_resources.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPodsAge = "pitcrew_metrics_exporter_pods_age_seconds ";

// A page without that series says that the socket is not mounted (docs/metrics.md).
TEST(Page, TheAgeOfPodsIsThereOnceTheKubeletHasAnswered) {
  const test_support::TemporaryFolder folder;
  Options options;
  options.kubernetes = true;
  options.pod_resources = folder.path() / "kubelet.sock";
  Page page(options);
  page.Publish(std::make_shared<const Round>());
  EXPECT_THAT(page.Text().value_or(""), HasSubstr("pitcrew_metrics_exporter_round_age_seconds "));
  EXPECT_THAT(page.Text().value_or(""), Not(HasSubstr(kPodsAge)));
  auto kubelet = rpc::testing::FakePodResources::Start(options.pod_resources);
  EXPECT_THAT(page.Text().value_or(""), HasSubstr(kPodsAge));
  kubelet.reset();
  EXPECT_THAT(page.Text().value_or(""), HasSubstr(kPodsAge)) << "what it said grows old";
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter
