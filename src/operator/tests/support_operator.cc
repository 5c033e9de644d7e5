#include "support_operator.h"

#include "base/file.h"

namespace pitcrew::gpu_operator::testing {

void OperatorTest::SetUpTestSuite() {
  const auto client = ApiServer::Shared().MakeClient();
  const auto text = base::ReadFile(std::string(PITCREW_SOURCE_DIR) +
                                   "/deploy/chart/gpu-operator/crds/"
                                   "nvidia.com_clusterpolicies.yaml");
  ASSERT_TRUE(text) << text.error().ToString();
  const auto definition = codec::ParseYaml(*text);
  ASSERT_TRUE(definition) << definition.error().ToString();
  const auto applied = client->Apply(kube::kCustomResourceDefinitions, *definition, kAdmin);
  ASSERT_TRUE(applied) << applied.error().ToString();
  ASSERT_TRUE(Eventually([&] { return client->List(desired::kClusterPolicies, "").has_value(); }));
}

}  // namespace pitcrew::gpu_operator::testing
