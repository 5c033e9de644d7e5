#include "kubevirt/kinds.h"

#include <gtest/gtest.h>

namespace pitcrew::kubevirt {
namespace {

using codec::Json;

Json Definition(const Json& versions, const char* established = "True") {
  return {{"spec", {{"versions", versions}}},
          {"status", {{"conditions", {{{"type", "Established"}, {"status", established}}}}}}};
}

Json Version(const char* name, bool served, bool storage) {
  return {{"name", name}, {"served", served}, {"storage", storage}};
}

TEST(HyperConvergedVersion, IsTheStoredOne) {
  RecordProperty("holds", "virtualisation-and-olm.md #8");
  const auto of = [](const Json& versions) { return FormOfDefinition(Definition(versions)); };
  EXPECT_EQ(of(Json::array({Version("v1beta1", true, true)})), Form::kHyperConvergedV1Beta1);
  EXPECT_EQ(of(Json::array({Version("v1", true, true)})), Form::kHyperConvergedV1);
  EXPECT_EQ(of({Version("v1beta1", true, true), Version("v1", true, false)}),
            Form::kHyperConvergedV1Beta1);
  EXPECT_EQ(of({Version("v1beta1", true, false), Version("v1", true, true)}),
            Form::kHyperConvergedV1);
  EXPECT_EQ(of({Version("v1beta1", false, true), Version("v1", true, false)}),
            Form::kHyperConvergedV1)
      << "one that is stored and not served cannot be asked for";
  EXPECT_EQ(of(Json::array({Version("v2", true, true)})), std::nullopt);
  EXPECT_EQ(FormOfDefinition(Definition(Json::array({Version("v1", true, true)}), "False")),
            std::nullopt);
  EXPECT_EQ(FormOfDefinition(Json::object()), std::nullopt);
}

TEST(Forms, AreThoseOfObjects) {
  for (const Form form : {Form::kKubeVirt, Form::kHyperConvergedV1Beta1, Form::kHyperConvergedV1}) {
    const auto& kind = KindOf(form);
    EXPECT_EQ(FormOf({{"apiVersion", kind.api_version()}, {"kind", kind.kind}}), form);
  }
  EXPECT_EQ(FormOf({{"apiVersion", "kubevirt.io/v1"}, {"kind", "VirtualMachine"}}), std::nullopt);
  EXPECT_EQ(FormOf({{"apiVersion", "hco.kubevirt.io/v2"}, {"kind", "HyperConverged"}}),
            std::nullopt);
}

}  // namespace
}  // namespace pitcrew::kubevirt
