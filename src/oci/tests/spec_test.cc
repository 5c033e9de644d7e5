#include "oci/spec.h"

#include <gtest/gtest.h>

namespace pitcrew::oci {
namespace {

Spec Parsed(std::string_view text) {
  auto spec = Spec::Parse(text);
  EXPECT_TRUE(spec) << spec.error().message;
  return *std::move(spec);
}

codec::Json Json(std::string_view text) { return *codec::ParseJson(text); }

// container-toolkit.md 2.4 and #107.
TEST(OciSpec, WritesCompactTextWithEscapesAndNewline) {
  RecordProperty("holds", "container-toolkit.md #107");
  EXPECT_EQ(Parsed(R"({"ociVersion": ""})").ToText(), "{\"ociVersion\":\"\"}\n");
  EXPECT_EQ(Parsed(R"({"process":{"args":["a<b>&c"]}})").ToText(),
            "{\"process\":{\"args\":[\"a\\u003cb\\u003e\\u0026c\"]}}\n");
}

TEST(OciSpec, KeepsWhatItDoesNotKnow) {
  const std::string_view text =
      R"({"ociVersion":"1.3.0","future":{"big":18446744073709551615,"list":[1,null,"x"]},)"
      R"("linux":{"seccomp":{"x":1}},"process":{"rlimits":[{"hard":1024}]}})";
  Spec spec = Parsed(text);
  spec.SetEnv("A=b");
  spec.SetDevice({"/dev/nvidia0", "c", 195, 0, {}, {}, {}}, "rwm");
  codec::Json expected = Json(text);
  expected["process"]["env"] = {"A=b"};
  expected["linux"]["devices"] =
      Json(R"([{"path":"/dev/nvidia0","type":"c","major":195,"minor":0}])");
  expected["linux"]["resources"]["devices"] =
      Json(R"([{"allow":true,"type":"c","major":195,"minor":0,"access":"rwm"}])");
  EXPECT_EQ(Json(spec.ToText()), expected);
}

// container-toolkit.md 7.7.
TEST(OciSpec, EnvIsReplacedInPlaceOrAppended) {
  Spec spec = Parsed(R"({"process":{"env":["PATH=/bin","NVIDIA_VISIBLE_DEVICES=all","X=1"]}})");
  spec.SetEnv("NVIDIA_VISIBLE_DEVICES=void");
  spec.SetEnv("NEW=1");
  EXPECT_EQ(spec.env(),
            (std::vector<std::string>{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void", "X=1", "NEW=1"}));
  EXPECT_EQ(spec.FindEnv("X"), "1");
  EXPECT_EQ(spec.FindEnv("PAT"), std::nullopt);
}

// container-toolkit.md 7.7: same destination replaced, then sorted by depth, stably.
TEST(OciSpec, MountsAreReplacedAndSortedByDepth) {
  Spec spec = Parsed(
      R"({"mounts":[{"destination":"/a/b/c"},{"destination":"/dev"},{"destination":"/x","source":"s"},{"destination":"/"}]})");
  spec.SetMount({"/x", "bind", "other", {"ro"}});
  spec.SetMount({"/a/z", "", "new", {}});
  spec.SortMounts();
  std::vector<std::string> order;
  for (const auto& mount : spec.mounts()) order.push_back(mount.destination + ":" + mount.source);
  EXPECT_EQ(order, (std::vector<std::string>{"/:", "/dev:", "/x:other", "/a/z:new", "/a/b/c:"}));
}

TEST(OciSpec, HooksAreAppendedAndRemoved) {
  Spec spec = Parsed(
      R"({"hooks":{"prestart":[{"path":"/usr/bin/nvidia-container-runtime-hook","args":["x"]},{"path":"/y"}]}})");
  spec.AddHook("createContainer", {"/hook", {"hook", "noop"}, {"A=b"}, 5});
  EXPECT_EQ(spec.RemoveHooks("prestart", [](const std::string& path) { return path != "/y"; }), 1U);
  EXPECT_EQ(spec.RemoveHooks("poststop", [](const std::string&) { return true; }), 0U);
  EXPECT_EQ(Json(spec.ToText()),
            Json(R"({"hooks":{"prestart":[{"path":"/y"}],"createContainer":)"
                 R"([{"path":"/hook","args":["hook","noop"],"env":["A=b"],"timeout":5}]}})"));
}

// container-toolkit.md 7.7: 0 skipped, added if absent.
TEST(OciSpec, AdditionalGidsAreASet) {
  Spec spec = Parsed(R"({"process":{"user":{"uid":1000,"gid":7,"additionalGids":[44]}}})");
  spec.AddAdditionalGids({0, 44, 104, 104});
  EXPECT_EQ(spec.json()["process"]["user"]["additionalGids"], Json("[44,104]"));
  EXPECT_EQ(spec.process_uid(), 1000U);
  EXPECT_EQ(spec.process_gid(), 7U);
}

// Array form for old versions.
TEST(OciSpec, BoundingCapabilitiesInBothForms) {
  RecordProperty("holds", "container-toolkit.md #128");
  EXPECT_TRUE(Parsed(R"({"process":{"capabilities":{"bounding":["CAP_SYS_ADMIN"]}}})")
                  .HasBoundingCapability("CAP_SYS_ADMIN"));
  EXPECT_TRUE(Parsed(R"({"process":{"capabilities":["CAP_SYS_ADMIN"]}})")
                  .HasBoundingCapability("CAP_SYS_ADMIN"));
  EXPECT_FALSE(Parsed(R"({"process":{"capabilities":{"effective":["CAP_SYS_ADMIN"]}}})")
                   .HasBoundingCapability("CAP_SYS_ADMIN"));
}

TEST(OciSpec, WrongKindsAreRefusedNotGuessed) {
  for (const auto* text :
       {"[]", "3", R"({"process":[]})", R"({"process":{"env":[1]}})", R"({"mounts":{}})",
        R"({"hooks":{"prestart":["x"]}})", R"({"linux":{"resources":{"devices":[1]}}})", "{"}) {
    EXPECT_FALSE(Spec::Parse(text)) << text;
  }
  EXPECT_TRUE(
      Spec::Parse(R"({"process":null,"mounts":null,"hooks":null,"linux":{"devices":null}})"));
}

}  // namespace
}  // namespace pitcrew::oci
