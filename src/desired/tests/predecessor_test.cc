#include "desired/predecessor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "codec/yaml.h"
#include "desired/operand_table.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

Json Entry(const std::string& manager, const std::string& operation, const std::string& fields,
           const std::string& subresource = "") {
  Json entry = {{"manager", manager},
                {"operation", operation},
                {"apiVersion", "apps/v1"},
                {"fieldsType", "FieldsV1"},
                {"fieldsV1", *codec::ParseYaml(fields)}};
  if (!subresource.empty()) entry["subresource"] = subresource;
  return entry;
}

Json WithEntries(const Json& entries) { return {{"metadata", {{"managedFields", entries}}}}; }

// Fields of upstream's update calls become ours by apply.
TEST(TakenOverFields, UpdatesOfUpstreamBecomeOurApply) {
  const Json status = Entry("kube-controller-manager", "Update", "{f:status: {}}", "status");
  const auto fields = TakenOverFields(WithEntries(
      {Entry("gpu-operator", "Update", "{f:spec: {f:a: {}, f:b: {.: {}, f:c: {}}}}"), status}));
  ASSERT_TRUE(fields);
  EXPECT_EQ(*fields, Json({status, Entry("nvidia-gpu-operator", "Apply",
                                         "{f:spec: {f:a: {}, f:b: {.: {}, f:c: {}}}}")}));
}

TEST(TakenOverFields, TheyJoinWhatIsOursAlready) {
  const auto fields = TakenOverFields(WithEntries(
      {Entry("nvidia-gpu-operator", "Apply", "{f:spec: {f:a: {}, f:b: {f:c: {}}}}"),
       Entry("gpu-operator", "Update", "{f:spec: {f:b: {.: {}, f:d: {}}}, f:metadata: {}}")}));
  ASSERT_TRUE(fields);
  EXPECT_EQ(
      *fields,
      Json::array({Entry("nvidia-gpu-operator", "Apply",
                         "{f:spec: {f:a: {}, f:b: {.: {}, f:c: {}, f:d: {}}}, f:metadata: {}}")}));
}

// Other people's fields, and other programs' of the same name on a subresource, stay theirs.
TEST(TakenOverFields, NothingOfOthersIsTaken) {
  EXPECT_FALSE(TakenOverFields(WithEntries(Json::array())));
  EXPECT_FALSE(TakenOverFields(Json::object()));
  EXPECT_FALSE(
      TakenOverFields(WithEntries({Entry("kubectl-edit", "Update", "{f:spec: {}}"),
                                   Entry("gpu-operator", "Apply", "{f:spec: {}}"),
                                   Entry("gpu-operator", "Update", "{f:status: {}}", "status"),
                                   Entry("nvidia-gpu-operator", "Apply", "{f:spec: {}}")})));
}

std::string_view StateOf(const std::string& kind, const std::string& name,
                         const Json& labels = Json::object()) {
  return Operands().StateOfName(
      {{"kind", kind}, {"metadata", {{"name", name}, {"labels", labels}}}});
}

// operator-behaviour.md section 5.3: variants of the driver's DaemonSet.
TEST(StateOfName, ByTheManifestsNames) {
  EXPECT_EQ(StateOf("DaemonSet", "nvidia-driver-daemonset"), "state-driver");
  EXPECT_EQ(StateOf("DaemonSet", "nvidia-driver-daemonset-5.14.0-427.el9-rhel9.4"), "state-driver");
  EXPECT_EQ(StateOf("DaemonSet", "nvidia-device-plugin-mps-control-daemon"),
            "state-mps-control-daemon");
  EXPECT_EQ(StateOf("DaemonSet", "nvidia-dcgm-exporter"), "state-dcgm-exporter");
  EXPECT_EQ(StateOf("DaemonSet", "nvidia-kata-manager"), "state-kata-manager");
  EXPECT_EQ(StateOf("ClusterRole", "nvidia-driver"), "state-driver");
  EXPECT_EQ(StateOf("ConfigMap", "gpu-operator-trusted-ca"), "state-driver");
  EXPECT_EQ(StateOf("SecurityContextConstraints", "nvidia-driver"), "state-driver");
  EXPECT_EQ(StateOf("RuntimeClass", "nvidia-cdi"), "pre-requisites");
}

TEST(StateOfName, RuntimeClassesOfAnyName) {
  EXPECT_EQ(StateOf("RuntimeClass", "mine", {{"app.kubernetes.io/component", "gpu-operator"}}),
            "pre-requisites");
  EXPECT_EQ(StateOf("RuntimeClass", "mine"), "");
}

TEST(StateOfName, OtherNamesAreNobodys) {
  EXPECT_EQ(StateOf("DaemonSet", "my-daemonset"), "");
  EXPECT_EQ(StateOf("DaemonSet", "nvidia-driver-daemonsets"), "");
  EXPECT_EQ(StateOf("ConfigMap", "nvidia-driver-daemonset"), "");
}

// One name in two states would have one state prune what the other applies.
TEST(StateOfName, EveryNameIsOfOneState) {
  std::map<std::string, std::set<std::string>> states;
  for (const Operand& operand : Operands()) {
    const auto objects = Operands().LoadManifests(operand.state, true);
    ASSERT_TRUE(objects) << objects.error().ToString();
    for (const Object& object : *objects) {
      states[codec::FindString(object, {"kind"}) + "/" +
             codec::FindString(object, {"metadata", "name"})]
          .insert(std::string(operand.state));
    }
  }
  for (const auto& [name, of] : states) EXPECT_EQ(of.size(), 1U) << name;
}

}  // namespace
}  // namespace pitcrew::desired
