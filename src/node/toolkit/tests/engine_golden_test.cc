// Every folder of tests/data is one case of an engine's life: input.yaml has the options, the files
// as they are and the source; setup.yaml and cleanup.yaml have the files as they should be
// afterwards (text, or null for a file that is not there). Cleanup starts from the files of the
// setup.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "codec/yaml.h"
#include "node/toolkit/engine.h"
#include "tests/support/folders.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;
namespace fs = std::filesystem;

Json Load(const fs::path& path) {
  const auto text = base::ReadFile(path);
  EXPECT_TRUE(text) << text.error().message;
  auto value = codec::ParseYaml(text.value_or(""), path.string());
  EXPECT_TRUE(value) << value.error().message;
  return value.value_or(Json());
}

std::optional<std::string> TextOf(const Json& files, const std::string& path) {
  const auto found = files.find(path);
  if (found == files.end() || found->is_null()) return std::nullopt;
  return found->get<std::string>();
}

EngineOptions ReadOptions(const Json& json) {
  EngineOptions options;
  const auto engine = json.value("engine", "containerd");
  options.kind = engine == "crio"     ? EngineKind::kCrio
                 : engine == "docker" ? EngineKind::kDocker
                                      : EngineKind::kContainerd;
  options.config = json.value("config", "/etc/containerd/config.toml");
  options.drop_in = json.value("dropIn", "/etc/containerd/conf.d/99-nvidia.toml");
  options.drop_in_host_path = json.value("dropInHostPath", "");
  options.runtime_name = json.value("runtimeName", "nvidia");
  options.set_as_default = json.value("setAsDefault", false);
  options.enable_cdi = json.value("enableCdi", false);
  options.annotation_prefixes = json.value("annotationPrefixes", std::vector<std::string>{});
  options.use_legacy_config = json.value("legacyConfig", false);
  return options;
}

void Apply(const std::vector<FileContent>& wanted, Json& files) {
  for (const auto& file : wanted) {
    files[file.path.string()] = file.content ? Json(*file.content) : Json();
  }
}

EngineFiles FilesOf(const EngineOptions& options, const Json& files) {
  return {TextOf(files, options.config.string()), TextOf(files, options.drop_in.string()), {}};
}

void ExpectFiles(const Json& actual, const Json& expected) {
  for (const auto& [path, content] : expected.items()) {
    const auto found = actual.find(path);
    if (content.is_null()) {
      EXPECT_TRUE(found == actual.end() || found->is_null()) << path << " should not be there";
    } else {
      ASSERT_TRUE(found != actual.end() && found->is_string()) << path << " is missing";
      EXPECT_EQ(found->get<std::string>(), content.get<std::string>()) << path;
    }
  }
}

class Case : public ::testing::TestWithParam<std::string> {};

TEST_P(Case, FilesAreAsExpected) {
  const fs::path folder = test_support::TestData() / GetParam();
  const Json input = Load(folder / "input.yaml");
  SCOPED_TRACE(input.value("reference", ""));
  const EngineOptions options = ReadOptions(input.value("options", Json::object()));
  const auto runtimes = RuntimesFor(options, "/opt/t/toolkit");
  Json files = input.value("files", Json::object());
  const auto source_text = input.contains("source")
                               ? std::optional(input["source"].get<std::string>())
                               : TextOf(files, options.config.string());
  const auto source = ParseEngineConfig(options.kind, source_text.value_or(""), "source");
  ASSERT_TRUE(source) << source.error().message;

  const auto setup = PlanSetup(options, runtimes, *source, FilesOf(options, files));
  ASSERT_TRUE(setup) << setup.error().message;
  Apply(*setup, files);
  ExpectFiles(files, Load(folder / "setup.yaml"));
  // Nothing changes the second time: no restart.
  const auto again = PlanSetup(options, runtimes, *source, FilesOf(options, files));
  EXPECT_EQ(again, setup);

  const auto cleanup = PlanCleanup(options, runtimes, FilesOf(options, files));
  ASSERT_TRUE(cleanup) << cleanup.error().message;
  Apply(*cleanup, files);
  ExpectFiles(files, Load(folder / "cleanup.yaml"));
}

std::vector<std::string> Cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(test_support::TestData())) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Golden, Case, ::testing::ValuesIn(Cases()),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace pitcrew::node::toolkit
