// What `pitcrew vm` prints, held against the definition of KubeVirt itself.
#include <gtest/gtest.h>

#include "apiserver/api_server.h"
#include "apiserver/kubevirt_definitions.h"
#include "kubevirt/kinds.h"
#include "vm/virtual_machine.h"

namespace pitcrew::vm {
namespace {

using pitcrew::testing::ApiServer;

TEST(VirtualMachine, IsTakenByTheApiServerAsItIs) {
  const auto client = ApiServer::Shared().MakeClient();
  const auto defined = pitcrew::testing::DefineKubeVirt(*client);
  ASSERT_TRUE(defined) << defined.error().ToString();
  const auto machine = VirtualMachine({.name = "one",
                                       .name_space = "default",
                                       .resource = "nvidia.com/GA102GL_A10",
                                       .count = 2,
                                       .cores = 8,
                                       .memory = "32Gi",
                                       .disk = "registry.test/disk:1"});
  const auto created = client->Create(kubevirt::kVirtualMachines, machine,
                                      {.field_manager = "test", .subresource = {}});
  ASSERT_TRUE(created) << created.error().ToString();
  // A field that the definition does not know would be dropped.
  EXPECT_EQ((*created)["spec"], machine["spec"]);
}

}  // namespace
}  // namespace pitcrew::vm
