// Pods of drivers that another DaemonSet takes over, on a real kube-apiserver that refuses now and
// then.
#include "operator/roll_out/driver_successors.h"

#include <gmock/gmock.h>

#include <atomic>

#include "api/labels.h"
#include "apiserver/interposed_server.h"
#include "kube/ownership.h"
#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::HasSubstr;

class DriverSuccessorsTest : public OperatorTest {
 protected:
  void SetUp() override {
    OperatorTest::SetUp();
    Create(kube::kNodes, {{"metadata", {{"name", "gpu-1"}, {"labels", {{"pool", "a"}}}}}});
    former_ = CreateDaemonSet("former");
    successor_ = CreateDaemonSet("successor");
    Create(kube::kPods, {{"metadata",
                          {{"name", "driver"},
                           {"namespace", name_space_},
                           {"labels", Labels()},
                           {"ownerReferences",
                            {{{"apiVersion", "apps/v1"},
                              {"kind", "DaemonSet"},
                              {"name", "former"},
                              {"uid", former_["metadata"]["uid"]},
                              {"controller", true}}}}}},
                         {"spec", {{"nodeName", "gpu-1"}, {"containers", Containers()}}}});
  }
  static Json Labels() {
    return {{"app", "driver"},
            {std::string(api::kComponentLabel), std::string(api::kDriverComponent)}};
  }
  static Json Containers() { return Json::array({{{"name", "c"}, {"image", "registry.test/c"}}}); }
  Json CreateDaemonSet(const std::string& name) {
    const Json daemonset = {
        {"apiVersion", "apps/v1"},
        {"kind", "DaemonSet"},
        {"metadata", {{"name", name}, {"namespace", name_space_}, {"labels", Labels()}}},
        {"spec",
         {{"selector", {{"matchLabels", {{"app", "driver"}}}}},
          {"template",
           {{"metadata", {{"labels", Labels()}}},
            {"spec", {{"nodeSelector", {{"pool", "a"}}}, {"containers", Containers()}}}}}}}};
    const auto created = client_->Create(kube::kDaemonSets, daemonset, kAdmin);
    EXPECT_TRUE(created) << created.error().ToString();
    return created.value_or(Json());
  }
  // Every write of a pod by this client is answered with that while `status_` is not 0.
  base::Result<bool> PassOn() {
    const pitcrew::testing::InterposedServer server(
        [this](const auto& request, auto& reply, const io::StopToken&) {
          if (request.method != "PATCH" || !request.path.contains("/pods/")) return false;
          ++writes_;
          const int status = status_;
          if (once_) status_ = 0;
          if (status == 0) return false;
          reply.Send(status, Json{{"kind", "Status"},
                                  {"status", "Failure"},
                                  {"reason", status == 403   ? "Forbidden"
                                             : status == 404 ? "NotFound"
                                                             : "Conflict"},
                                  {"message", "refused"},
                                  {"details", {{"name", "driver"}}},
                                  {"code", status}}
                                 .dump());
          return true;
        });
    const auto client = server.MakeClient();
    const std::vector<desired::Object> wanted = {successor_};
    return PassDriverPodsOn(*client, desired::StandingOf(kube::kDaemonSets, former_), wanted, {});
  }
  [[nodiscard]] std::string OwnerOfPod() const {
    const auto pod = client_->Get(kube::kPods, Own("driver"));
    const auto owner = pod ? kube::ControllerOf(*pod) : std::nullopt;
    return owner ? owner->uid : "";
  }

  Json former_;
  Json successor_;
  std::atomic<int> status_ = 0;
  std::atomic<bool> once_ = true;
  std::atomic<int> writes_ = 0;
};

// The DaemonSet is to stay until its pods are another's: an error that nobody hears of would leave
// both for good.
TEST_F(DriverSuccessorsTest, ARefusedPodIsAnError) {
  status_ = 403;
  const auto passed = PassOn();
  ASSERT_FALSE(passed);
  EXPECT_THAT(passed.error().message, HasSubstr("pass the driver's pod driver on"));
  EXPECT_EQ(OwnerOfPod(), codec::FindString(former_, {"metadata", "uid"}));
}

TEST_F(DriverSuccessorsTest, APodThatHasChangedMeanwhileIsReadAgain) {
  for (const int status : {404, 409}) {
    status_ = status;
    EXPECT_EQ(PassOn(), true) << status;
    EXPECT_EQ(writes_, 2) << "refused once, then taken";
    EXPECT_EQ(OwnerOfPod(), codec::FindString(successor_, {"metadata", "uid"}));
    writes_ = 0;
    std::swap(former_, successor_);
  }
}

TEST_F(DriverSuccessorsTest, OneThatChangesAllTheTimeKeepsItsDaemonSetForNow) {
  status_ = 409;
  once_ = false;
  EXPECT_EQ(PassOn(), false);
  EXPECT_EQ(OwnerOfPod(), codec::FindString(former_, {"metadata", "uid"}));
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
