#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "cdi/apply.h"
#include "cdi/format.h"
#include "cdi/name.h"
#include "cdi/registry.h"
#include "cdi/yaml_writer.h"
#include "tests/support/folders.h"

namespace pitcrew::cdi {
namespace {

Spec Parsed(std::string_view text) {
  auto spec = ParseSpec(text, "test");
  EXPECT_TRUE(spec) << spec.error().message;
  return spec ? *std::move(spec) : Spec{};
}

DeviceNode Node(std::string path, std::string host_path = "", std::string permissions = "") {
  DeviceNode node;
  node.path = std::move(path);
  node.host_path = std::move(host_path);
  node.permissions = std::move(permissions);
  return node;
}

ContainerEdits WithNode(DeviceNode node) {
  ContainerEdits edits;
  edits.device_nodes = {std::move(node)};
  return edits;
}

// container-toolkit.md 6.8: an excerpt in upstream's exact layout, read and written back.
TEST(CdiFormat, YamlLayoutOfTheReferencesExample) {
  const auto text = base::ReadFile(test_support::TestData() / "reference_example.yaml");
  ASSERT_TRUE(text);
  const Spec spec = Parsed(*text);
  EXPECT_EQ(ToYamlText(spec), *text);
  EXPECT_TRUE(Validate(spec)) << Validate(spec).error().message;
  EXPECT_EQ(Parsed(ToJsonText(spec)), spec);
}

// container-toolkit.md 2.3, row "Quoting".
TEST(CdiFormat, ScalarsAreQuotedAsGoDoes) {
  for (const auto* text : {"0",    "0:1", "10:12", "1e3", "0x1",        "true", "null",  "y",
                           "755",  "",    "~",     "1.5", "2026-01-31", "0o17", "1_000", "1e-3",
                           "1E+3", ".5",  "-.5",   "1.",  "1.e2",       "+7",   "0b11",  "0X1f"}) {
    EXPECT_EQ(GoYamlScalar(text), "\"" + std::string(text) + "\"");
  }
  for (const auto* text : {"none",
                           "all",
                           "mig0:1",
                           "GPU-1b2c",
                           "MIG-0a",
                           "580.95.05",
                           "0:99",
                           "-x",
                           "--link",
                           "a:b",
                           "a#b",
                           "../card1::/dev/dri",
                           "NVCT_EMPTY_DEVICE=",
                           "1e",
                           "1e-",
                           "e3",
                           "1.2.3",
                           "1.5x",
                           "0xg",
                           "0b12",
                           "?a",
                           ":a",
                           "-a"}) {
    EXPECT_EQ(GoYamlScalar(text), text);
  }
  for (const auto* text : {"-",   "- a", "?",  "? a", ":",  ": a", "a:", " a", "a ", "---", "---a",
                           "...", "@a",  "&a", "*a",  "!a", "%a",  "[a", "{a", "#a", "`a"}) {
    EXPECT_EQ(GoYamlScalar(text), "'" + std::string(text) + "'");
  }
  EXPECT_EQ(GoYamlScalar("a: b"), "'a: b'");
  EXPECT_EQ(GoYamlScalar("a #b"), "'a #b'");
  EXPECT_EQ(GoYamlScalar("it's: x"), "'it''s: x'");
  EXPECT_EQ(GoYamlScalar("a\nb"), "\"a\\nb\"");
}

// container-toolkit.md 2.4: compact, no newline, containerEdits always there.
TEST(CdiFormat, JsonForm) {
  Spec spec{"0.5.0", "nvidia.com/gpu", {}, {{"0", {}, {}}}, {}};
  spec.devices[0].edits.env = {"A=<b>"};
  EXPECT_EQ(ToJsonText(spec),
            R"({"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0",)"
            R"("containerEdits":{"env":["A=\u003cb\u003e"]}}],"containerEdits":{}})");
}

// container-toolkit.md 6.11, table of minimum versions.
TEST(CdiFormat, MinimumVersions) {
  RecordProperty("holds", "container-toolkit.md #92");
  Spec spec{"", "nvidia.com/gpu", {}, {{"all", {}, {}}}, {}};
  EXPECT_EQ(MinimumVersion(spec), "0.3.0");
  spec.edits.mounts = {{"/a", "/b", {}, "bind"}};
  EXPECT_EQ(MinimumVersion(spec), "0.4.0");
  spec.devices[0].name = "0";
  EXPECT_EQ(MinimumVersion(spec), "0.5.0");
  spec.devices[0].name = "all";
  spec.edits.device_nodes = {Node("/dev/x", "/dev/y")};
  EXPECT_EQ(MinimumVersion(spec), "0.5.0");
  spec.kind = "nvidia.com/gpu.coherent";
  EXPECT_EQ(MinimumVersion(spec), "0.6.0");
  spec.devices[0].edits.additional_gids = {44};
  EXPECT_EQ(MinimumVersion(spec), "0.7.0");
  spec.edits.net_devices = {{"eth1", "eth0"}};
  EXPECT_EQ(MinimumVersion(spec), "1.1.0");
}

TEST(CdiFormat, ValidationNamesWhatIsWrong) {
  Spec spec{"", "nvidia.com/gpu", {}, {{"0", {}, {}}}, {}};
  EXPECT_NE(Validate(spec).error().message.find("empty device edits"), std::string::npos);
  spec.devices[0].edits.env = {"A=b"};
  EXPECT_TRUE(Validate(spec));
  for (const auto& change : std::vector<std::function<void(Spec&)>>{
           [](Spec& s) { s.version = "9.0.0"; }, [](Spec& s) { s.version = "0.3.0"; },
           [](Spec& s) { s.kind = "nvidia.com"; }, [](Spec& s) { s.kind = "1a/gpu"; },
           [](Spec& s) { s.devices.push_back(s.devices[0]); }, [](Spec& s) { s.devices.clear(); },
           [](Spec& s) { s.devices[0].name = "-a"; }, [](Spec& s) { s.edits.env = {"=b"}; },
           [](Spec& s) { s.edits.hooks = {{"atStart", "/x", {}, {}, {}}}; },
           [](Spec& s) { s.edits.mounts = {{"/x", "", {}, ""}}; },
           [](Spec& s) { s.edits.device_nodes = {Node("/x", "", "rx")}; }}) {
    Spec changed = spec;
    change(changed);
    EXPECT_FALSE(Validate(changed)) << ToYamlText(changed);
  }
}

TEST(CdiFormat, ParserRefusesWhatItDoesNotKnow) {
  EXPECT_EQ(ParseSpec("cdiVersion: 0.3.0\nkind: a/b\nfuture: 1\n", "x.yaml").error().message,
            "x.yaml: spec.future is not known to CDI");
  EXPECT_EQ(ParseSpec("devices:\n- name: 1\n", "x.yaml").error().message,
            "x.yaml: spec.devices[0].name is not text");
  EXPECT_FALSE(ParseSpec("devices:\n- containerEdits: {deviceNodes: [{major: 1e30}]}\n", "x"));
  EXPECT_FALSE(ParseSpec("[]", "x"));
  EXPECT_FALSE(ParseSpec("", "x"));
}

// container-toolkit.md 6.11 and 13 row 42 (one character parts are fine).
TEST(CdiName, Parsing) {
  const auto name = ParseQualifiedName("nvidia.com/gpu=0:1");
  ASSERT_TRUE(name);
  EXPECT_EQ(*name, (QualifiedName{"nvidia.com", "gpu", "0:1"}));
  EXPECT_EQ(name->ToString(), "nvidia.com/gpu=0:1");
  EXPECT_TRUE(IsQualifiedName("a/b=c"));
  for (const auto* bad : {"all", "nvidia.com/gpu", "nvidia.com/gpu=", "=0", "/gpu=0",
                          "nvidia.com/=0", "nvidia.com/gpu=0=1", "nvidia.com/gpu=-0",
                          "nvidia.com/gpu=a/b", "GPU-1/2/3", "1.com/gpu=0", "nvidia.com-/gpu=0"}) {
    EXPECT_FALSE(IsQualifiedName(bad)) << bad;
  }
}

class CdiRegistry : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("pitcrew-cdi-registry-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& file, const std::string& kind, const std::string& device,
             const std::string& env, const std::string& common = "") {
    Spec spec{"", kind, {}, {{device, {}, {}}}, {}};
    spec.devices[0].edits.env = {env};
    if (!common.empty()) spec.edits.env = {common};
    ASSERT_TRUE(WriteSpecFile(folder_ / file, spec));
  }
  Registry Load(std::span<const std::string> kinds = {}) {
    return Registry::Load({folder_ / "etc", folder_ / "run"}, kinds);
  }
  static std::vector<std::string> Env(const Registry& registry, std::vector<std::string> names) {
    const auto edits = registry.Resolve(names);
    return edits ? edits->env : std::vector<std::string>{edits.error().message};
  }
  std::filesystem::path folder_;
};

// container-toolkit.md 7.4.
TEST_F(CdiRegistry, LaterFolderHasPriorityAndConflictsDisappear) {
  Write("etc/a.yaml", "v.com/gpu", "0", "FROM=etc");
  Write("run/b.json", "v.com/gpu", "0", "FROM=run");
  Write("run/c.yaml", "v.com/gpu", "1", "FROM=c");
  Write("run/d.yaml", "v.com/gpu", "1", "FROM=d");
  const auto registry = Load();
  EXPECT_EQ(registry.DeviceNames(), (std::vector<std::string>{"v.com/gpu=0"}));
  ASSERT_EQ(registry.errors().size(), 1U);
  EXPECT_EQ(registry.errors()[0].reason, "ConflictingCdiDevice");
  EXPECT_EQ(Env(registry, {"v.com/gpu=0"}), (std::vector<std::string>{"FROM=run"}));
  EXPECT_EQ(Env(registry, {"v.com/gpu=1", "v.com/gpu=2", "v.com/gpu=0"}),
            (std::vector<std::string>{"unresolvable CDI devices v.com/gpu=1, v.com/gpu=2"}));
}

TEST_F(CdiRegistry, CommonEditsComeOncePerSpecificationBeforeItsFirstDevice) {
  Spec spec{"", "v.com/gpu", {}, {{"0", {}, {}}, {"1", {}, {}}}, {}};
  spec.devices[0].edits.env = {"D=0"};
  spec.devices[1].edits.env = {"D=1"};
  spec.edits.env = {"COMMON=1"};
  ASSERT_TRUE(WriteSpecFile(folder_ / "run/a.yaml", spec));
  Write("run/b.yaml", "v.com/nic", "x", "N=x", "OTHER=1");
  EXPECT_EQ(Env(Load(), {"v.com/gpu=1", "v.com/nic=x", "v.com/gpu=0"}),
            (std::vector<std::string>{"COMMON=1", "D=1", "OTHER=1", "N=x", "D=0"}));
}

// A broken file of somebody else hides nothing (container-toolkit.md 7.4, #61).
TEST_F(CdiRegistry, BrokenFilesAreReportedAndPassedOver) {
  Write("run/a.yaml", "v.com/gpu", "0", "A=b");
  ASSERT_TRUE(base::WriteFileAtomically(folder_ / "run/b.yaml", "kind: [\n"));
  ASSERT_TRUE(base::WriteFileAtomically(folder_ / "run/notes.txt", "kind: [\n"));
  const auto registry = Load();
  EXPECT_EQ(registry.errors().size(), 1U);
  EXPECT_EQ(registry.DeviceNames().size(), 1U);
}

TEST_F(CdiRegistry, AFileWithoutAVersionIsBroken) {
  for (const char* version : {"", "cdiVersion: ''\n"}) {
    ASSERT_TRUE(base::WriteFileAtomically(
        folder_ / "run/a.yaml",
        version + std::string("kind: v.com/gpu\ndevices:\n- name: a\n  containerEdits:\n"
                              "    env: [A=b]\n")));
    const auto registry = Load();
    ASSERT_EQ(registry.errors().size(), 1U);
    EXPECT_NE(registry.errors()[0].message.find("cdiVersion"), std::string::npos);
    EXPECT_TRUE(registry.DeviceNames().empty());
  }
}

TEST_F(CdiRegistry, FilesThatCannotDefineTheKindAreNotParsed) {
  Write("run/a.yaml", "v.com/gpu", "0", "A=b");
  ASSERT_TRUE(base::WriteFileAtomically(folder_ / "run/b.yaml", "kind: [\n"));
  const std::string kinds[] = {"v.com/gpu"};
  const auto registry = Load(kinds);
  EXPECT_TRUE(registry.errors().empty());
  EXPECT_EQ(registry.DeviceNames().size(), 1U);
}

// container-toolkit.md 7.7.
TEST(CdiApply, EditsOfAContainer) {
  ContainerEdits edits;
  edits.env = {"NVIDIA_VISIBLE_DEVICES=void"};
  edits.device_nodes = {Node("/dev/nvidia0", "/host/nvidia0", "rw")};
  edits.mounts = {{"/h/smi", "/usr/bin/nvidia-smi", {"ro", "rbind"}, ""}};
  edits.hooks = {{"createContainer", "/hook", {"hook", "noop"}, {}, {}}};
  edits.additional_gids = {44};
  auto spec = oci::Spec::Parse(
      R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=all"],"user":{"uid":1000,"gid":1000}}})");
  ASSERT_TRUE(spec);
  const auto look_up = [](const std::string& path) -> base::Result<NodeInfo> {
    EXPECT_EQ(path, "/host/nvidia0");
    return NodeInfo{"c", 195, 0, 0666};
  };
  ASSERT_TRUE(Apply(edits, *spec, look_up));
  const auto expected = codec::ParseJson(R"({
    "process":{"env":["NVIDIA_VISIBLE_DEVICES=void"],
               "user":{"uid":1000,"gid":1000,"additionalGids":[44]}},
    "linux":{"devices":[{"path":"/dev/nvidia0","type":"c","major":195,"minor":0,"fileMode":438,
                         "uid":1000,"gid":1000}],
             "resources":{"devices":[{"allow":true,"type":"c","major":195,"minor":0,"access":"rw"}]}},
    "mounts":[{"destination":"/usr/bin/nvidia-smi","source":"/h/smi","options":["ro","rbind"]}],
    "hooks":{"createContainer":[{"path":"/hook","args":["hook","noop"]}]}})");
  EXPECT_EQ(spec->json(), *expected);
}

// Every member that the format has: in both forms, and in a container.
TEST(CdiFormat, EveryMemberIsWrittenAndReadAgain) {
  Spec spec;
  spec.version = "1.1.0";
  spec.kind = "v.com/gpu";
  spec.annotations = {{"a", "b"}};
  DeviceNode node = Node("/dev/x", "/host/x", "rw");
  node.type = "c";
  node.major = 7;
  node.minor = 8;
  node.file_mode = 0640;
  node.uid = 3;
  node.gid = 4;
  ContainerEdits edits;
  edits.env = {"A=b"};
  edits.device_nodes = {node};
  edits.net_devices = {{"eth1", "eth0"}};
  edits.hooks = {{"prestart", "/hook", {"hook", "x"}, {"E=1"}, 9}};
  edits.mounts = {{"/h", "/c", {"ro"}, "tmpfs"}};
  edits.intel_rdt = IntelRdt{"clos", "l3", "mem", {"s1", "s2"}, true, true, true};
  edits.additional_gids = {44, 45};
  spec.devices = {{"0", {{"c", "d"}}, edits}};
  spec.edits = edits;
  EXPECT_EQ(Parsed(ToYamlText(spec)), spec);
  EXPECT_EQ(Parsed(ToJsonText(spec)), spec);
  // What is not set is not written.
  edits.intel_rdt = IntelRdt{};
  edits.intel_rdt->clos_id = "clos";
  spec.edits = edits;
  EXPECT_EQ(ToYamlText(spec).rfind("enableMonitoring"), ToYamlText(spec).find("enableMonitoring"));
  EXPECT_EQ(Parsed(ToYamlText(spec)), spec);

  auto container = oci::Spec::Parse("{}");
  ASSERT_TRUE(container);
  const auto nobody = [](const std::string&) -> base::Result<NodeInfo> {
    return base::Fail(base::NotFound("NotFound", "gone"));
  };
  ASSERT_TRUE(Apply(spec.devices[0].edits, *container, nobody));
  const auto& json = container->json();
  EXPECT_EQ(json["linux"]["intelRdt"],
            *codec::ParseJson(R"({"closID":"clos","l3CacheSchema":"l3","memBwSchema":"mem",
              "schemata":["s1","s2"],"enableMonitoring":true,"enableCMT":true,"enableMBM":true})"));
  EXPECT_EQ(json["linux"]["netDevices"], *codec::ParseJson(R"({"eth1":{"name":"eth0"}})"));
  EXPECT_EQ(json["linux"]["devices"],
            *codec::ParseJson(R"([{"path":"/dev/x","type":"c","major":7,"minor":8,"fileMode":416,
              "uid":3,"gid":4}])"));
  EXPECT_EQ(
      json["hooks"]["prestart"],
      *codec::ParseJson(R"([{"path":"/hook","args":["hook","x"],"env":["E=1"],"timeout":9}])"));
  EXPECT_EQ(
      json["mounts"],
      *codec::ParseJson(R"([{"destination":"/c","type":"tmpfs","source":"/h","options":["ro"]}])"));
  EXPECT_EQ(json["process"]["user"]["additionalGids"], *codec::ParseJson("[44,45]"));
}

TEST(CdiApply, AMissingNodeIsAnErrorUnlessItIsDescribed) {
  const auto look_up = [](const std::string&) -> base::Result<NodeInfo> {
    return base::Fail(base::NotFound("NotFound", "gone"));
  };
  auto spec = oci::Spec::Parse("{}");
  DeviceNode node = Node("/dev/x");
  EXPECT_FALSE(Apply(WithNode(node), *spec, look_up));
  node.type = "c";
  node.major = 1;
  EXPECT_TRUE(Apply(WithNode(node), *spec, look_up));
}

// The node was made anew for a driver with another major; what has the old one now is no GPU.
TEST(CdiApply, TheNodesNumberWinsOverTheSpecifications) {
  const auto look_up = [](const std::string& path) -> base::Result<NodeInfo> {
    if (path == "/gone") return base::Fail(base::NotFound("NotFound", "gone"));
    return NodeInfo{"c", 511, 7, 0666};
  };
  const auto applied = [&](const DeviceNode& node) {
    auto spec = oci::Spec::Parse("{}");
    EXPECT_TRUE(Apply(WithNode(node), *spec, look_up));
    const auto& linux_part = spec->json()["linux"];
    const auto& device = linux_part["devices"][0];
    if (node.type != "u") {  // for which there are no rules
      const auto& rule = linux_part["resources"]["devices"][0];
      EXPECT_EQ(rule["major"], device["major"]);
      EXPECT_EQ(rule["minor"], device["minor"]);
    }
    return std::pair(device["major"].get<int>(), device["minor"].get<int>());
  };
  DeviceNode node = Node("/dev/nvidia-uvm");
  node.major = 510;
  node.file_mode = 0666;
  EXPECT_EQ(applied(node), std::pair(511, 7));
  node.host_path = "/driver/dev/nvidia-uvm";
  EXPECT_EQ(applied(node), std::pair(511, 7));
  for (const char* type : {"u", "c"}) {
    node.type = type;
    EXPECT_EQ(applied(node), std::pair(511, 7));
  }
  node.host_path = "/gone";
  EXPECT_EQ(applied(node), std::pair(510, 0));
  // A device under another name than the host's.
  node.host_path = "";
  EXPECT_EQ(applied(node), std::pair(510, 0));
}

}  // namespace
}  // namespace pitcrew::cdi
