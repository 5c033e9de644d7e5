#include "tests/support/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "codec/yaml.h"

namespace pitcrew::test_support {
namespace {

codec::Json ReadOrDie(const std::filesystem::path& file) {
  const auto text = base::ReadFile(file);
  if (text) {
    if (auto document = codec::ParseYaml(*text, file.string())) return *std::move(document);
    fmt::print(stderr, "{}\n", codec::ParseYaml(*text, file.string()).error().ToString());
  } else {
    fmt::print(stderr, "{}\n", text.error().ToString());
  }
  std::exit(1);
}

}  // namespace

std::vector<GoldenCase> ReadGoldenCases(const std::filesystem::path& folder) {
  std::vector<GoldenCase> cases;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    cases.push_back({.name = entry.path().filename().string(),
                     .folder = entry.path(),
                     .input = ReadOrDie(entry.path() / "input.yaml"),
                     .expected = ReadOrDie(entry.path() / "expected.yaml")});
  }
  std::ranges::sort(cases, {}, &GoldenCase::name);
  if (cases.empty()) {
    fmt::print(stderr, "there is no golden case in {}\n", folder.string());
    std::exit(1);
  }
  return cases;
}

}  // namespace pitcrew::test_support
