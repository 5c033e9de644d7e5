#include "support_operator.h"

#include "base/file.h"
#include "tests/support/folders.h"

namespace pitcrew::gpu_operator::testing {

void OperatorTest::DefineGpuClusters() {
  const Json definition = *codec::ParseYaml(R"(
metadata: {name: gpuclusters.nvidia.com}
spec:
  group: nvidia.com
  scope: Cluster
  names: {kind: GPUCluster, listKind: GPUClusterList, plural: gpuclusters, singular: gpucluster}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
)");
  Create(kube::kCustomResourceDefinitions, definition);
}

void OperatorTest::SetUpTestSuite() {
  const auto client = ApiServer::Shared().MakeClient();
  for (const char* name : {"nvidia.com_clusterpolicies.yaml", "nvidia.com_nvidiadrivers.yaml"}) {
    const auto text = base::ReadFile(test_support::SourceFolder().string() +
                                     "/deploy/chart/gpu-operator/crds/" + name);
    ASSERT_TRUE(text) << text.error().ToString();
    const auto definition = codec::ParseYaml(*text);
    ASSERT_TRUE(definition) << definition.error().ToString();
    const auto applied = client->Apply(kube::kCustomResourceDefinitions, *definition, kAdmin);
    ASSERT_TRUE(applied) << applied.error().ToString();
  }
  for (const kube::ResourceKind* kind : {&desired::kClusterPolicies, &desired::kNvidiaDrivers}) {
    ASSERT_TRUE(Eventually([&] { return client->List(*kind, "").has_value(); }));
  }
}

}  // namespace pitcrew::gpu_operator::testing
