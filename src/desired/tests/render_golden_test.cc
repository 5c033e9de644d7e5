// Every folder tests/data/<operand>/<case>/ is a case: policy.yaml (the whole object, or only
// spec:), cluster.yaml (optional, merged over a plain cluster), expected.yaml (the stream of
// objects, or error: text). PITCREW_UPDATE_GOLDEN=1 rewrites expected.yaml; check the difference
// against the reference before committing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "codec/yaml.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired::testing {
namespace {

using codec::Json;

struct Case {
  std::filesystem::path folder;
  std::string state;
  std::string name;
};

// What the test's name ends with, instead of the bytes of the value.
void PrintTo(const Case& golden, std::ostream* out) { *out << golden.name; }

// Folder of the data to the state that it renders.
constexpr std::pair<std::string_view, std::string_view> kFolders[] = {
    {"pre-requisites", "pre-requisites"},
    {"driver", "state-driver"},
    {"container-toolkit", "state-container-toolkit"},
    {"operator-validation", "state-operator-validation"},
    {"device-plugin", "state-device-plugin"},
    {"gpu-feature-discovery", "gpu-feature-discovery"},
    {"operator-metrics", "state-operator-metrics"},
    {"mps-control-daemon", "state-mps-control-daemon"},
    {"dcgm", "state-dcgm"},
    {"dcgm-exporter", "state-dcgm-exporter"},
    {"mig-manager", "state-mig-manager"},
    {"node-status-exporter", "state-node-status-exporter"},
    {"vgpu-manager", "state-vgpu-manager"},
    {"vgpu-device-manager", "state-vgpu-device-manager"},
    {"sandbox-validation", "state-sandbox-validation"},
    {"vfio-manager", "state-vfio-manager"},
    {"sandbox-device-plugin", "state-sandbox-device-plugin"},
    {"kata-device-plugin", "state-kata-device-plugin"},
    {"kata-manager", "state-kata-manager"},
    {"cc-manager", "state-cc-manager"},
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& [folder, state] : kFolders) {
    const std::filesystem::path root = std::filesystem::path(PITCREW_TEST_DATA) / folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      std::string name = std::string(folder) + "_" + entry.path().filename().string();
      for (char& letter : name) {
        if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
      }
      cases.push_back({entry.path(), std::string(state), name});
    }
  }
  return cases;
}

std::string ToStream(const Json& rendered) {
  if (rendered.is_object()) return codec::ToYamlText(rendered);
  std::string text;
  for (const Json& object : rendered) {
    if (!text.empty()) text += "---\n";
    text += codec::ToYamlText(object);
  }
  return text;
}

// Hash annotations are opaque; what they are computed from stands beside them.
void DropHashes(Json& rendered) {
  if (!rendered.is_array()) return;
  for (Json& object : rendered) {
    Json& metadata = object["metadata"];
    metadata["annotations"].erase("nvidia.com/last-applied-hash");
    if (metadata["annotations"].empty()) metadata.erase("annotations");
  }
}

class RenderGoldenTest : public ::testing::TestWithParam<Case> {};

TEST_P(RenderGoldenTest, RendersAsExpected) {
  const auto& folder = GetParam().folder;
  const auto policy_text = base::ReadFile(folder / "policy.yaml");
  ASSERT_TRUE(policy_text) << policy_text.error().ToString();
  auto policy = codec::ParseYaml(*policy_text, (folder / "policy.yaml").string());
  ASSERT_TRUE(policy) << policy.error().ToString();
  if (!policy->contains("kind")) policy = MinimalPolicy(policy->value("spec", Json::object()));
  Json cluster = PlainCluster();
  if (const auto text = base::ReadFile(folder / "cluster.yaml")) {
    const auto changes = codec::ParseYaml(*text, (folder / "cluster.yaml").string());
    ASSERT_TRUE(changes) << changes.error().ToString();
    codec::ApplyMergePatch(cluster, *changes);
  }
  Json rendered = RenderState(*policy, cluster, GetParam().state);
  DropHashes(rendered);
  const std::string actual = ToStream(rendered);
  if (std::getenv("PITCREW_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(base::WriteFileAtomically(folder / "expected.yaml", actual));
  }
  const auto expected = base::ReadFile(folder / "expected.yaml");
  ASSERT_TRUE(expected) << expected.error().ToString();
  EXPECT_EQ(actual, *expected);
}

INSTANTIATE_TEST_SUITE_P(Operands, RenderGoldenTest, ::testing::ValuesIn(Cases()),
                         [](const auto& golden) { return golden.param.name; });

}  // namespace
}  // namespace pitcrew::desired::testing
