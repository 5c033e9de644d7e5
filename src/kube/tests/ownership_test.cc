#include "kube/ownership.h"

#include <gtest/gtest.h>

namespace pitcrew::kube {
namespace {

using codec::Json;

Json Object() { return {{"metadata", {{"namespace", "n"}, {"name", "object"}}}}; }

TEST(Ownership, TheControllerIsOneOfTheOwners) {
  Json object = Object();
  EXPECT_FALSE(ControllerOf(object));
  object["metadata"]["ownerReferences"] = Json::array({{{"uid", "u0"}},
                                                       {{"apiVersion", "apps/v1"},
                                                        {"kind", "DaemonSet"},
                                                        {"name", "owner"},
                                                        {"uid", "u1"},
                                                        {"controller", true}}});
  EXPECT_EQ(ControllerOf(object), (OwnerReference{.api_version = "apps/v1",
                                                  .kind = "DaemonSet",
                                                  .name = "owner",
                                                  .uid = "u1",
                                                  .controller = true}));
  EXPECT_TRUE(IsControlledBy(object, "u1"));
  EXPECT_FALSE(IsControlledBy(object, "u0"));
}

TEST(Ownership, PlainOwnersAreNoControllers) {
  Json object = Object();
  object["metadata"]["ownerReferences"] = Json::array({{{"uid", "u1"}}});
  EXPECT_FALSE(ControllerOf(object));
  for (const Json& no : {Json(false), Json("true"), Json(1), Json()}) {
    object["metadata"]["ownerReferences"] =
        Json::array({{{"uid", "u1"}, {"controller", no}}, {{"uid", "u2"}, {"controller", true}}});
    EXPECT_TRUE(IsControlledBy(object, "u2")) << no;
  }
  object["metadata"]["ownerReferences"] = "nonsense";
  EXPECT_FALSE(ControllerOf(object));
}

}  // namespace
}  // namespace pitcrew::kube
