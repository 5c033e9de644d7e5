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

// Of two variables of one name a runtime takes the last.
TEST(OciSpec, AnEditCountsAgainstEveryEntryOfItsName) {
  Spec spec = Parsed(R"({"process":{"env":["A=1","B=1","A=2","AA=1"]},
      "linux":{"devices":[{"path":"/dev/a","type":"c"},{"path":"/dev/b"},{"path":"/dev/a","type":"b"}]},
      "mounts":[{"destination":"/x","source":"1"},{"destination":"/y"},{"destination":"/x","source":"2"}]})");
  spec.SetEnv("A=3");
  EXPECT_EQ(spec.env(), (std::vector<std::string>{"A=3", "B=1", "AA=1"}));
  spec.SetDevice({"/dev/a", "p", 0, 0, {}, {}, {}}, "rwm");
  EXPECT_EQ(spec.json()["linux"]["devices"],
            Json(R"([{"path":"/dev/b"},{"path":"/dev/a","type":"p","major":0,"minor":0}])"));
  spec.SetMount({"/x", "", "3", {}});
  EXPECT_EQ(spec.mounts().back().source, "3");
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

// As runc, which drops the earlier ones; an entry without "=" is no variable.
TEST(OciSpec, OfSeveralVariablesTheLastCounts) {
  const Spec spec = Parsed(R"({"process":{"env":["A=1","A","B=","A=2","AB=3"]}})");
  EXPECT_EQ(spec.FindEnv("A"), "2");
  EXPECT_EQ(spec.FindEnv("B"), "");
  EXPECT_EQ(Parsed(R"({"process":{"env":["A"]}})").FindEnv("A"), std::nullopt);
  EXPECT_EQ(Parsed("{}").FindEnv("A"), std::nullopt);
  EXPECT_TRUE(Parsed("{}").env().empty());
}

TEST(OciSpec, AnEmptySpecificationHasNothing) {
  const Spec spec = Parsed("{}");
  EXPECT_TRUE(spec.mounts().empty());
  EXPECT_TRUE(spec.annotations().empty());
  EXPECT_EQ(spec.root_path(), "");
  EXPECT_EQ(spec.process_uid(), std::nullopt);
  EXPECT_FALSE(spec.HasBoundingCapability("CAP_SYS_ADMIN"));
  Spec sorted = spec;
  sorted.SortMounts();
  EXPECT_EQ(sorted.json(), Json("{}")) << "no member is made by looking";
}

TEST(OciSpec, AnnotationsRootAndMountsAreRead) {
  const Spec spec = Parsed(R"({"annotations":{"a":"b","odd":1,"c":"d"},"root":{"path":"rootfs"},)"
                           R"("mounts":[{"destination":"/x","type":"bind","source":"/s",)"
                           R"("options":["ro","nosuid"]}]})");
  EXPECT_EQ(spec.annotations(),
            (std::vector<std::pair<std::string, std::string>>{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(spec.root_path(), "rootfs");
  ASSERT_EQ(spec.mounts().size(), 1U);
  const Mount mount = spec.mounts().front();
  EXPECT_EQ(mount.destination + " " + mount.type + " " + mount.source, "/x bind /s");
  EXPECT_EQ(mount.options, (std::vector<std::string>{"ro", "nosuid"}));
}

TEST(OciSpec, AMountIsWrittenWithWhatItHas) {
  Spec spec = Parsed("{}");
  spec.SetMount({"/x", "bind", "/s", {"ro"}});
  spec.SetMount({"/y", "", "", {}});
  EXPECT_EQ(spec.json(),
            Json(R"({"mounts":[{"destination":"/x","type":"bind","source":"/s","options":["ro"]},)"
                 R"({"destination":"/y"}]})"));
}

// container-toolkit.md 7.7: the node of a device is replaced; only devices get a cgroup rule.
TEST(OciSpec, DevicesAreReplacedByTheirPath) {
  Spec spec = Parsed(R"({"linux":{"devices":[{"path":"/dev/a","type":"c","major":1,"minor":2},)"
                     R"({"path":"/dev/b","type":"c","major":1,"minor":3}]}})");
  spec.SetDevice({"/dev/b", "b", 7, 8, 0666U, 0U, 44U}, "rw");
  spec.SetDevice({"/dev/pipe", "p", 0, 0, {}, {}, {}}, "rwm");
  EXPECT_EQ(
      spec.json()["linux"],
      Json(R"({"devices":[{"path":"/dev/a","type":"c","major":1,"minor":2},)"
           R"({"path":"/dev/b","type":"b","major":7,"minor":8,"fileMode":438,"uid":0,"gid":44},)"
           R"({"path":"/dev/pipe","type":"p","major":0,"minor":0}],"resources":{"devices":)"
           R"([{"allow":true,"type":"b","major":7,"minor":8,"access":"rw"}]}})"));
}

TEST(OciSpec, APhaseWithoutHooksGoes) {
  Spec spec = Parsed(R"({"hooks":{"prestart":[{"path":"/x"}],"poststop":null}})");
  EXPECT_EQ(spec.RemoveHooks("prestart", [](const std::string& path) { return path == "/y"; }), 0U);
  EXPECT_EQ(spec.json(), Json(R"({"hooks":{"prestart":[{"path":"/x"}],"poststop":null}})"));
  EXPECT_EQ(spec.RemoveHooks("poststop", [](const std::string&) { return true; }), 0U);
  EXPECT_EQ(spec.RemoveHooks("prestart", [](const std::string&) { return true; }), 1U);
  EXPECT_EQ(spec.json(), Json(R"({"hooks":{"poststop":null}})"));
  spec.AddHook("poststop", {"/z", {}, {}, {}});
  EXPECT_EQ(spec.json(), Json(R"({"hooks":{"poststop":[{"path":"/z"}]}})"));
}

TEST(OciSpec, NumbersOfUsersAreOfThirtyTwoBits) {
  const auto uid = [](const std::string& number) {
    return Parsed(R"({"process":{"user":{"uid":)" + number + "}}}").process_uid();
  };
  EXPECT_EQ(uid("0"), 0U);
  EXPECT_EQ(uid("4294967295"), 4294967295U);
  EXPECT_EQ(uid("4294967296"), std::nullopt);
  EXPECT_EQ(uid("-1"), std::nullopt);
  EXPECT_EQ(uid("1.5"), std::nullopt);
  Spec spec = Parsed("{}");
  spec.AddAdditionalGids({0});
  EXPECT_EQ(spec.json(), Json("{}")) << "root's group is nothing to add";
}

TEST(OciSpec, NetworkDevicesAndCacheAllocation) {
  Spec spec = Parsed(R"({"linux":{"netDevices":{"eth1":{"name":"a"}}}})");
  spec.SetNetDevice("eth0", "gpu0");
  spec.SetIntelRdt({{"closID", "x"}});
  EXPECT_EQ(spec.json(), Json(R"({"linux":{"netDevices":{"eth0":{"name":"gpu0"},)"
                              R"("eth1":{"name":"a"}},"intelRdt":{"closID":"x"}}})"));
}

// Each member that is edited: one of another kind would be edited wrongly.
TEST(OciSpec, ARefusalNamesTheMember) {
  for (const auto& [member, text] : std::vector<std::pair<std::string, std::string>>{
           {"process", R"({"process":"x"})"},
           {"process.env", R"({"process":{"env":{}}})"},
           {"process.user", R"({"process":{"user":[]}})"},
           {"process.user.additionalGids", R"({"process":{"user":{"additionalGids":7}}})"},
           {"root", R"({"root":"/"})"},
           {"root.path", R"({"root":{"path":1}})"},
           {"annotations", R"({"annotations":[]})"},
           {"linux", R"({"linux":[]})"},
           {"linux.resources", R"({"linux":{"resources":[]}})"},
           {"linux.devices", R"({"linux":{"devices":{}}})"},
           {"linux.resources.devices", R"({"linux":{"resources":{"devices":{}}}})"},
           {"linux.netDevices", R"({"linux":{"netDevices":[]}})"},
           {"mounts", R"({"mounts":"x"})"},
           {"hooks", R"({"hooks":[]})"},
           {"hooks.prestart", R"({"hooks":{"prestart":{}}})"},
           {"hooks.createRuntime", R"({"hooks":{"createRuntime":{}}})"},
           {"hooks.createContainer", R"({"hooks":{"createContainer":{}}})"},
           {"hooks.startContainer", R"({"hooks":{"startContainer":{}}})"},
           {"hooks.poststart", R"({"hooks":{"poststart":{}}})"},
           {"hooks.poststop", R"({"hooks":{"poststop":{}}})"}}) {
    const auto spec = Spec::Parse(text, "config.json");
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().code, base::Code::kInvalid) << text;
    EXPECT_EQ(spec.error().message.find("config.json: " + member + " has a kind"), 0U)
        << spec.error().message;
  }
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
