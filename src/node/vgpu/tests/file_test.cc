// Types' names and configuration files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/vgpu/configuration.h"
#include "node/vgpu/type_name.h"

namespace pitcrew::node::vgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(TypeNameTest, Accepted) {
  RecordProperty("holds", "vgpu-device-manager.md #5");
  for (const auto* name :
       {"A16-8Q", "A16-8A", "A16-8B", "A16-8C", "A100-5C", "A100-1-5C", "A100-1-5CME",
        "A100-1-5CNOME", "A100-1-5CMEALL", "A100-1-5CGFX", "RTX6000-Ada-2Q", "A2-0B"}) {
    EXPECT_TRUE(TypeName::Parse(name)) << name;
  }
  const auto shared = TypeName::Parse("RTX6000-Ada-2Q");
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->gpu, "RTX6000-Ada");
  EXPECT_FALSE(shared->is_mig_backed());
  EXPECT_EQ(shared->gigabytes, 2);
  EXPECT_EQ(shared->series, 'Q');
  const auto backed = TypeName::Parse("A100-7-40CMEALL");
  ASSERT_TRUE(backed);
  EXPECT_EQ(backed->slices, 7);
  EXPECT_EQ(backed->gigabytes, 40);
  EXPECT_EQ(backed->attribute, "MEALL");
}

TEST(TypeNameTest, Refused) {
  RecordProperty("holds", "vgpu-device-manager.md #6");
  for (const auto* name :
       {"A16-8E", "A16 -8Q", " A16-8Q", "A16-8Q ", "A100-1-5Cme", "A100-1-5Cab", "bogus", "A100",
        "A100-5CME", "A100-0-5C", "A100-10-5C", "A100-05C", "a100-5C", "A100-C", "A100--5C",
        "A100-1-1-5C", "A100-1-Ada-5C", "A100-99999999999C"}) {
    EXPECT_FALSE(TypeName::Parse(name)) << name;
  }
  EXPECT_EQ(TypeName::Parse("").error().message, "empty vGPU type string");
  EXPECT_THAT(TypeName::Parse("bogus").error().message,
              StartsWith("malformed vGPU type string 'bogus'"));
}

TEST(TypeNameTest, AttributesAreTakenOff) {
  RecordProperty("holds", "vgpu-device-manager.md #11");
  EXPECT_EQ(WithoutAttribute("A100-1-5CME"), "A100-1-5C");
  EXPECT_EQ(WithoutAttribute("A100-1-5CNOME"), "A100-1-5C");
  EXPECT_EQ(WithoutAttribute("A100-1-5CMEALL"), "A100-1-5C");
  EXPECT_EQ(WithoutAttribute("A100-1-5CGFX"), "A100-1-5C");
  EXPECT_EQ(WithoutAttribute("A100-7-40CMEALL"), "A100-7-40C");
  EXPECT_EQ(WithoutAttribute("A100-1-5CNOMEME"), "A100-1-5CNOME");
  EXPECT_EQ(WithoutAttribute("A100ME-5C"), "A100ME-5C");
  EXPECT_EQ(WithoutAttribute(""), "");
  EXPECT_EQ(WithoutAttribute("RTX6000-Ada-2QGFX"), "RTX6000-Ada-2Q");
}

TEST(TypeNameTest, IsTheLastWordOfTheDriversTitle) {
  RecordProperty("holds", "vgpu-device-manager.md #12");
  EXPECT_EQ(NameOfTitle("NVIDIA RTX Pro 6000 Blackwell DC-48C\n"), "DC-48C");
  EXPECT_EQ(NameOfTitle("NVIDIA A100-4C"), "A100-4C");
  EXPECT_EQ(NameOfTitle("A100-4C"), "A100-4C");
}

// The message behind the place.
std::string Refusal(std::string_view text) {
  const auto parsed = ParseConfiguration(text, "c.yaml");
  if (parsed) return "accepted";
  EXPECT_EQ(parsed.error().reason, "InvalidVgpuConfig");
  return parsed.error().message;
}

std::string Entry(std::string_view members) {
  return "version: v1\nvgpu-configs:\n  one:\n  - {" + std::string(members) + "}\n";
}

TEST(VgpuConfigurationTest, EmptyOnesAreAccepted) {
  RecordProperty("holds", "vgpu-device-manager.md #1");
  for (const auto* text : {"", "# nothing\n", "null\n", "{}\n"}) {
    const auto parsed = ParseConfiguration(text, "c.yaml");
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, Configuration{});
  }
  const auto alone = ParseConfiguration("version: v1\n", "c.yaml");
  ASSERT_TRUE(alone);
  EXPECT_THAT(alone->configs, IsEmpty());
}

TEST(VgpuConfigurationTest, NamedConfigurations) {
  RecordProperty("holds", "vgpu-device-manager.md #2");
  const auto parsed = ParseConfiguration(
      "version: v1\n"
      "vgpu-configs:\n"
      "  small: [{devices: all, vgpu-devices: {A100-5C: 8}}]\n"
      "  large:\n"
      "  - devices: [0, 2]\n"
      "    vgpu-devices:\n"
      "      A100-20C: 2\n",
      "c.yaml");
  ASSERT_TRUE(parsed) << parsed.error().ToString();
  ASSERT_THAT(parsed->configs, SizeIs(2));
  const auto& large = parsed->configs.at("large");
  ASSERT_THAT(large, SizeIs(1));
  EXPECT_EQ(large[0].devices, (std::vector<int>{0, 2}));
  EXPECT_THAT(large[0].vgpu_devices, ElementsAre(Pair("A100-20C", 2)));
  const auto again = ParseConfiguration(ToYamlText(*parsed), "again");
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(*again, *parsed);

  EXPECT_THAT(Refusal("version: v2\n"), HasSubstr("unknown version: v2"));
  EXPECT_THAT(Refusal("vgpu-configs: {}\n"), HasSubstr("missing 'version' field"));
  EXPECT_THAT(Refusal("version: v1\nbogus: 1\n"), StartsWith("c.yaml:2:"));
  EXPECT_THAT(Refusal("version: v1\nbogus: 1\n"), HasSubstr("unexpected field: bogus"));
  EXPECT_THAT(Refusal("version: v1\nvgpu-configs: {}\n"),
              HasSubstr("at least one entry in 'vgpu-configs' is required"));
  EXPECT_THAT(Refusal("version: v1\nvgpu-configs: {one: []}\n"),
              HasSubstr("at least one entry in 'one' is required"));
}

TEST(VgpuConfigurationTest, Entries) {
  RecordProperty("holds", "vgpu-device-manager.md #3");
  EXPECT_EQ(Refusal(Entry("devices: all, vgpu-devices: {A100-5C: 1}")), "accepted");
  EXPECT_EQ(Refusal(Entry("devices: all, vgpu-devices: {A100-5C: 1, A100-10C: 2}")), "accepted");
  EXPECT_EQ(Refusal(Entry("device-filter: '0x20F110DE', devices: [0], vgpu-devices: {}")),
            "accepted");
  EXPECT_EQ(Refusal(Entry("device-filter: [a, b], devices: [0], vgpu-devices: {}")), "accepted");
  EXPECT_THAT(Refusal(Entry("bogus: 1, devices: all, vgpu-devices: {}")),
              HasSubstr("unexpected field: bogus"));
  EXPECT_THAT(Refusal(Entry("vgpu-devices: {}")), HasSubstr("missing required field: devices"));
  EXPECT_THAT(Refusal(Entry("devices: all")), HasSubstr("missing required field: vgpu-devices"));
  EXPECT_THAT(Refusal(Entry("devices: some, vgpu-devices: {}")),
              HasSubstr("invalid string input for 'devices': some"));
  EXPECT_THAT(Refusal(Entry("devices: {}, vgpu-devices: {}")), StartsWith("c.yaml:4:"));
}

TEST(VgpuConfigurationTest, Counts) {
  RecordProperty("holds", "vgpu-device-manager.md #7");
  const auto refusal = [](std::string_view counts) {
    return Refusal(Entry("devices: all, vgpu-devices: " + std::string(counts)));
  };
  EXPECT_EQ(refusal("{}"), "accepted");
  EXPECT_THAT(refusal("{A100-5C: -1}"), HasSubstr("invalid count for 'A100-5C': -1"));
  EXPECT_THAT(refusal("{A100-5C: 0, A100-10C: 0}"), HasSubstr("invalid count for 'A100-10C': 0"));
  EXPECT_THAT(refusal("{bogus: 1}"), HasSubstr("invalid format for 'bogus': malformed vGPU type"));
  EXPECT_THAT(refusal("{A100-5C: 1, A100-1-5C: 1}"),
              HasSubstr("cannot mix time-sliced and MIG-backed vGPU devices on the same GPU"));
  EXPECT_THAT(refusal("{A100-5C: 1.5}"), HasSubstr("must be a whole number"));
}

TEST(VgpuConfigurationTest, FiltersMatchBoards) {
  RecordProperty("holds", "vgpu-device-manager.md #4");
  const mig::DeviceId board{0x25B610DE, 0x14A910DE};
  const auto is_for = [&](std::vector<std::string> filter) {
    return ConfigEntry{.device_filter = std::move(filter)}.IsFor(board, 0);
  };
  EXPECT_TRUE(is_for({}));
  EXPECT_TRUE(is_for({""}));
  EXPECT_TRUE(is_for({"0x25B610DE"}));
  EXPECT_TRUE(is_for({"0x25B610DE:0x14A910DE"}));
  EXPECT_FALSE(is_for({"0x25B610DE:0x157E10DE"}));
  EXPECT_TRUE(is_for({"0x25B610DE:0x157E10DE", "0x25B610DE:0x14A910DE"}));
  EXPECT_FALSE(is_for({"0x25B610DE:0x14A910DE:extra"}));
  EXPECT_FALSE((ConfigEntry{.devices = std::vector<int>{1}}.IsFor(board, 0)));
}

TEST(VgpuConfigurationTest, IsSelectedByName) {
  const auto parsed = ParseConfiguration(
      "version: v1\n"
      "vgpu-configs:\n"
      "  a: [{devices: all, vgpu-devices: {}}]\n"
      "  b: [{devices: all, vgpu-devices: {}}]\n",
      "c.yaml");
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(SelectConfig(*parsed, "b"));
  EXPECT_EQ(SelectConfig(*parsed, "c").error().message,
            "selected vgpu-config not present: c; there are a, b");
  EXPECT_THAT(SelectConfig(*parsed, "").error().message,
              StartsWith("missing required flag 'selected-config' when more than one"));
}

}  // namespace
}  // namespace pitcrew::node::vgpu
