#include "kube/ownership.h"

#include <gtest/gtest.h>

namespace pitcrew::kube {
namespace {

using codec::Json;

Json Owner(const std::string& space = "n") {
  return {{"metadata", {{"namespace", space}, {"name", "owner"}, {"uid", "u1"}}}};
}
Json Object() { return {{"metadata", {{"namespace", "n"}, {"name", "object"}}}}; }

TEST(Ownership, SetsOneController) {
  Json object = Object();
  ASSERT_TRUE(SetControllerReference(object, Owner(), kDaemonSets));
  ASSERT_TRUE(SetControllerReference(object, Owner(), kDaemonSets));
  ASSERT_EQ(object["metadata"]["ownerReferences"].size(), 1U);
  EXPECT_EQ(ControllerOf(object), (OwnerReference{.api_version = "apps/v1",
                                                  .kind = "DaemonSet",
                                                  .name = "owner",
                                                  .uid = "u1",
                                                  .controller = true}));
  EXPECT_TRUE(IsControlledBy(object, "u1"));
  EXPECT_FALSE(IsControlledBy(object, "u2"));
  Json other = Owner();
  other["metadata"]["uid"] = "u2";
  EXPECT_EQ(SetControllerReference(object, other, kDaemonSets).error().code, base::Code::kConflict);
}

TEST(Ownership, AnOwnerStaysInItsNamespace) {
  Json object = Object();
  EXPECT_EQ(SetControllerReference(object, Owner("elsewhere"), kDaemonSets).error().reason,
            "OwnerInOtherNamespace");
  EXPECT_TRUE(SetControllerReference(object, Owner(""), kNodes));
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
