// Every folder tests/data/<case>/ is a case: cluster.yaml is what differs from the healthy cluster
// of doctor's cases (tests/support/patched_cluster.h), expected.yaml what differs in the picture of
// it: parts that are set, and parts that are gone. PITCREW_UPDATE_GOLDEN=1 rewrites it: read every
// line before you commit it. The case `base` is the whole picture of that cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"
#include "codec/yaml.h"
#include "dashboard/node_detail.h"
#include "dashboard/picture.h"
#include "doctor/source.h"
#include "fleet/report.h"
#include "support/patched_cluster.h"
#include "support/temporary_folder.h"
#include "tests/support/folders.h"

namespace pitcrew::dashboard {
namespace {

using codec::Json;

const std::filesystem::path kData = test_support::TestData();
const std::filesystem::path kDoctorData = test_support::SourceFolder() / "src/doctor/tests/data";

fleet::Cluster ReadPatched(const std::filesystem::path& patch) {
  const test_support::TemporaryFolder folder;
  const Json list = {
      {"apiVersion", "v1"},
      {"kind", "List"},
      {"items", test_support::PatchedObjects(kDoctorData / "base" / "cluster.yaml", patch)}};
  const auto file = folder.Write("cluster.json", codec::ToJsonText(list));
  auto cluster = doctor::FromFile(file.string(), "");
  if (!cluster) {
    ADD_FAILURE() << cluster.error().ToString();
    std::exit(1);
  }
  return *std::move(cluster);
}

Picture PictureOfPatched(const std::filesystem::path& patch) {
  const fleet::Cluster cluster = ReadPatched(patch);
  return PictureOf(cluster, fleet::MakeReport(cluster));
}

std::vector<std::string> PictureCases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

class DashboardGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(DashboardGoldenTest, ShowsWhatIsThere) {
  const auto patch = kData / GetParam() / "cluster.yaml";
  const Picture base = PictureOfPatched({});
  const std::string change =
      std::filesystem::exists(patch) ? ChangeBetween(base, PictureOfPatched(patch)) : WholeOf(base);
  const auto json = codec::ParseJson(change);
  ASSERT_TRUE(json) << change;
  const std::string actual = codec::ToYamlText(*json);
  const auto file = kData / GetParam() / "expected.yaml";
  if (std::getenv("PITCREW_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(base::WriteFileAtomically(file, actual));
  }
  const auto expected = base::ReadFile(file);
  ASSERT_TRUE(expected) << expected.error().ToString();
  EXPECT_EQ(actual, *expected) << file;
}

INSTANTIATE_TEST_SUITE_P(Cases, DashboardGoldenTest, ::testing::ValuesIn(PictureCases()),
                         [](const auto& golden) {
                           return base::ReplaceAll(golden.param, "-", "_");
                         });

// Doctor's own cases: the page says of each what doctor says, and nothing besides.
TEST(DashboardAndDoctorTest, SayTheSame) {
  for (const auto& entry : std::filesystem::directory_iterator(kDoctorData)) {
    const std::string name = entry.path().filename();
    const fleet::Cluster cluster =
        ReadPatched(name == "base" ? std::filesystem::path() : entry.path() / "cluster.yaml");
    const fleet::Report report = fleet::MakeReport(cluster);
    const Picture picture = PictureOf(cluster, report);
    std::size_t findings = 0;
    for (const auto& [part, text] : picture) {
      if (part.starts_with("finding/") || part.starts_with("pod/")) ++findings;
    }
    EXPECT_EQ(findings, report.cluster.size() + report.pods.size()) << name;
    for (const fleet::NodeReport& node : report.nodes) {
      const auto part = codec::ParseJson(picture.at("node/" + node.name));
      ASSERT_TRUE(part) << name;
      EXPECT_EQ((*part)["ready"], node.ready()) << name;
      EXPECT_EQ(codec::FindString(*part, {"finding", "id"}), node.broken ? node.broken->id : "");
      // What is broken is a link of the chain, so that the page has a place for it.
      const auto& chain = (*part)["chain"];
      EXPECT_TRUE(node.ready() || std::ranges::find(chain, (*part)["stage"]) != chain.end())
          << name << " " << node.name << " " << (*part)["stage"];
    }
  }
}

TEST(ChangeTest, FromAPictureToItselfIsNothing) {
  const Picture picture = PictureOfPatched({});
  EXPECT_EQ(ChangeBetween(picture, picture), "");
}

// From a file: nobody can be asked for more than it has.
TEST(NodeDetailTest, OfAFileIsWhatTheFileTells) {
  auto cluster = std::make_shared<fleet::Cluster>(ReadPatched(kData / "pods" / "cluster.yaml"));
  cluster->Index();
  const auto detail = DetailOf(cluster, "gpu-a", nullptr, {}, {});
  ASSERT_TRUE(detail) << detail.error().ToString();
  EXPECT_EQ((*detail)["node"]["name"], "gpu-a");
  EXPECT_EQ((*detail)["unknown"], Json::array());
  EXPECT_FALSE(detail->contains("gpus"));
  const Json expected = {{{"namespace", "team"},
                          {"name", "train-0"},
                          {"phase", "Running"},
                          {"ready", true},
                          {"resources", {{"nvidia.com/gpu", 4}}}}};
  EXPECT_EQ((*detail)["pods"], expected);
  const auto absent = DetailOf(cluster, "gpu-z", nullptr, {}, {});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, base::Code::kNotFound);
}

}  // namespace
}  // namespace pitcrew::dashboard
