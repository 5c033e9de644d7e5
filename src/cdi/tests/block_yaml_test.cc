#include "cdi/block_yaml.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "cdi/format.h"

namespace pitcrew::cdi {
namespace {

Spec Example(std::vector<const char*> names) {
  Spec spec;
  spec.kind = "runtime.nvidia.com/gpu";
  spec.annotations = {{"gpu.nvidia.com/driver-version", "580.95.05"}};
  for (const auto* name : names) {
    auto& device = spec.devices.emplace_back();
    device.name = name;
    device.annotations = {{"gpu.nvidia.com/brand", "nvidia"}};
    device.edits.device_nodes = {
        {"/dev/nvidia0", "/driver/dev/nvidia0", "c", 195, 0, 0666, "rwm", 1, 44},
        {"/dev/dri/card1", "", "", 226, 1, std::nullopt, "", std::nullopt, std::nullopt}};
    device.edits.additional_gids = {44, 104};
  }
  spec.edits.env = {"NVIDIA_VISIBLE_DEVICES=void", "A=x:y", "EMPTY="};
  spec.edits.hooks = {{"createContainer",
                       "/usr/bin/nvidia-cdi-hook",
                       {"nvidia-cdi-hook", "create-symlinks", "--link", "../a.so.1::/usr/lib/b.so"},
                       {"NVIDIA_CTK_DEBUG=false"},
                       5},
                      {"prestart", "/h", {"--mode", "755", ""}, {}, std::nullopt}};
  spec.edits.mounts = {{"/run/x", "/run/y", {"ro", "nosuid", "rbind"}, "bind"},
                       {"/a", "/b", {}, ""}};
  return spec;
}

// Read by the YAML parser: a comment is nothing that the plain form has.
base::Result<Spec> AsYaml(const std::string& text) { return ParseSpec(text + "# YAML\n", "a"); }

TEST(BlockYaml, WhatIsWrittenIsReadAndMeansTheSame) {
  Spec spec = Example({"0", "0:1", "GPU-4404041a", "mig0:1", "on", "y", "all", "1e3", "null"});
  const std::string text = ToYamlText(spec);
  spec.version = MinimumVersion(spec);
  const auto plain = ReadBlockYaml(text);
  ASSERT_TRUE(plain) << text;
  EXPECT_EQ(*plain, spec);
  EXPECT_FALSE(ReadBlockYaml(text + "# YAML\n"));
  EXPECT_EQ(*AsYaml(text), spec);
}

// As Kubernetes' programs write it: dashes beside the name of the list.
TEST(BlockYaml, ListsBesideTheirName) {
  const std::string text =
      "cdiVersion: 0.5.0\ncontainerEdits:\n  env:\n  - A=b\n  hooks: []\nkind: vendor.com/class\n"
      "devices:\n- containerEdits:\n    deviceNodes:\n    - path: /dev/a\n    - hostPath: /dev/c\n"
      "      path: /dev/b\n    env:\n    - C=d\n  name: one\n- containerEdits: {}\n  name: two\n";
  const auto plain = ReadBlockYaml(text);
  ASSERT_TRUE(plain);
  EXPECT_EQ(*plain, *AsYaml(text));
  ASSERT_EQ(plain->devices.size(), 2U);
  EXPECT_EQ(plain->devices[0].edits.device_nodes.size(), 2U);
}

// None of these may be taken for something: YAML makes another value of it, or an error.
TEST(BlockYaml, EverythingElseIsLeftToTheParser) {
  const std::string begin =
      "cdiVersion: 0.5.0\nkind: vendor.com/class\ndevices:\n    - name: one\n";
  for (const auto* rest : {
           "      containerEdits: {env: [A=b]}\n",
           "      containerEdits:\n        env:\n            - A=b # comment\n",
           "      containerEdits:\n        env:\n            - A=b\n              more\n",
           "      containerEdits:\n        env:\n            - 'A=b'\n",
           "      containerEdits:\n        env:\n            - \"A=\\x41\"\n",
           "      containerEdits:\n        env:\n            - |\n              A=b\n",
           "      containerEdits:\n        env:\n            - &a A=b\n            - *a\n",
           "      containerEdits:\n        env:\n          - A=b\n            - C=d\n",
           "      containerEdits:\n        env:\n            - A=b\n        env:\n            - "
           "C=d\n",
           "      containerEdits:\n        env:\n            -  A=b\n",
           "      containerEdits:\n        env:\n            - - A=b\n",
           "      containerEdits:\n        env:\n            - a: b\n",
           "      containerEdits:\n        unknown:\n            - A=b\n",
           "      containerEdits:\n        - env\n",
           "      containerEdits:\n",
           "      containerEdits: \n",
           "      containerEdits:\n        deviceNodes:\n            - path: /dev/a\n              "
           "major: 010\n",
           "      containerEdits:\n        deviceNodes:\n            - path: /dev/a\n              "
           "major: x\n",
           "      containerEdits:\n        deviceNodes:\n            - path: /dev/a\n              "
           "major: -1\n",
           "      containerEdits:\n        deviceNodes:\n            - path: /dev/a\n              "
           "uid: 4294967296\n",
           "      containerEdits:\n        deviceNodes:\n            - path: on\n",
           "      containerEdits:\n        deviceNodes:\n            - path: Null\n",
           "      containerEdits:\n        deviceNodes:\n            - path: ~\n",
           "      containerEdits:\n        deviceNodes:\n            - path: 12\n",
           "      containerEdits:\n        deviceNodes:\n            - path: !!str x\n",
           "      containerEdits:\n        deviceNodes:\n            - path: /dev/a\r\n",
           "      containerEdits:\n        deviceNodes:\n            - path: /dev/a \n",
           "      containerEdits:\n        deviceNodes:\n            - path:\n                a: "
           "b\n",
           "      containerEdits:\n        netDevices:\n            - name: a\n",
           "      containerEdits:\n        env:\n            - A=b",
           "      containerEdits:\n        env:\n            - A=b\n\n",
           "      containerEdits:\n        env:\n            - A=b\n---\nkind: b\n",
           "      containerEdits:\n        env:\n            - A=b\n...\n",
           "\t\n",
           "     \n",
       }) {
    EXPECT_FALSE(ReadBlockYaml(begin + rest)) << rest;
  }
  EXPECT_FALSE(ReadBlockYaml("kind: a/b\nkind: a/b\n"));
  EXPECT_FALSE(ReadBlockYaml("  kind: a/b\n"));
  EXPECT_FALSE(ReadBlockYaml("# c\nkind: a/b\n"));
}

// Cut off anywhere it says nothing, or what YAML says.
TEST(BlockYaml, CutOffAnywhere) {
  const std::string text = ToYamlText(Example({"0:1", "all"}));
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto part = text.substr(0, size);
    const auto plain = ReadBlockYaml(part);
    if (!plain) continue;
    const auto yaml = AsYaml(part);
    ASSERT_TRUE(yaml) << part;
    EXPECT_EQ(*plain, *yaml) << part;
  }
}

}  // namespace
}  // namespace pitcrew::cdi
