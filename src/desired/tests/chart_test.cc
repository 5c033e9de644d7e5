// The chart and the definition of ClusterPolicy speak of the operands that there are: held against
// the table, because YAML and templates cannot be derived from it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "base/file.h"
#include "codec/yaml.h"
#include "desired/operand_table.h"
#include "tests/support/folders.h"

namespace pitcrew::desired {
namespace {

using codec::Json;
using Names = std::set<std::string>;
using ::testing::HasSubstr;

std::string ReadChartFile(const std::string& name) {
  const auto path = test_support::SourceFolder() / "deploy/chart/gpu-operator" / name;
  auto text = base::ReadFile(path);
  EXPECT_TRUE(text) << text.error().ToString();
  return text ? *text : "";
}

const Json& Values() {
  static const Json kValues = *codec::ParseYaml(ReadChartFile("values.yaml"));
  return kValues;
}

// Fields of ClusterPolicy's spec.
const Json& SpecSchema() {
  static const Json kSchema = [] {
    const Json definition =
        *codec::ParseYaml(ReadChartFile("crds/nvidia.com_clusterpolicies.yaml"));
    return *codec::Find(definition["spec"]["versions"][0],
                        {"schema", "openAPIV3Schema", "properties", "spec", "properties"});
  }();
  return kSchema;
}

// Blocks that are an operand's own; several operands may share one.
Names Blocks() {
  Names blocks;
  for (const Operand& operand : Operands()) {
    if (!operand.field().empty()) blocks.emplace(operand.field());
  }
  return blocks;
}

Names Matches(const std::string& text, const std::string& pattern) {
  Names found;
  const std::regex regex(pattern);
  for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end; ++i) {
    found.insert((*i)[1]);
  }
  return found;
}

TEST(Chart, EveryOperandHasItsBlock) {
  for (const Operand& operand : Operands()) {
    const std::string block(operand.field());
    if (block.empty()) continue;
    EXPECT_TRUE(SpecSchema().contains(block)) << operand.state;
    EXPECT_TRUE(Values().contains(block)) << operand.state;
  }
}

// The definition names the variable that stands in for an image that the policy does not give.
TEST(Chart, EveryImageHasItsVariable) {
  for (const Operand& operand : Operands()) {
    if (operand.images.empty()) continue;
    const Json& block = SpecSchema()[std::string(operand.field())];
    const std::string said = codec::FindString(block, {"properties", "image", "description"});
    std::string words;  // without the line breaks of the YAML
    std::ranges::unique_copy(said, std::back_inserter(words),
                             [](char a, char b) { return a == ' ' && b == ' '; });
    EXPECT_THAT(words, HasSubstr(operand.images.front())) << operand.state;
  }
  // And none that nobody reads, but those of upstream's former components.
  Names known = {"CUDA_BASE_IMAGE", "KATA_MANAGER_IMAGE"};
  for (const std::string_view variable : Operands().image_variables()) known.emplace(variable);
  for (const std::string& said : Matches(SpecSchema().dump(), "([A-Z_]+_IMAGE)")) {
    EXPECT_TRUE(known.contains(said)) << said;
  }
}

// Where the chart makes an operand's ConfigMap: the schema of its values, the template and its
// validation.
TEST(Chart, ConfigMapsThatTheChartMakes) {
  const Json schema = *codec::ParseJson(ReadChartFile("values.schema.json"), "values.schema.json");
  Names offered;
  for (const std::string& block : Blocks()) {
    const auto path = {std::string_view("properties"), std::string_view(block),
                       std::string_view("properties"), std::string_view("config"),
                       std::string_view("properties"), std::string_view("create")};
    if (codec::Find(schema, path) != nullptr) offered.insert(block);
  }
  EXPECT_FALSE(offered.empty());
  for (const char* name : {"templates/configmaps.yaml", "templates/validations.yaml"}) {
    const std::string text = ReadChartFile(name);
    std::smatch list;
    ASSERT_TRUE(std::regex_search(text, list, std::regex(R"(range \$name := list ([^}]*)\}\})")))
        << name;
    EXPECT_EQ(Matches(list[1], R"x("([A-Za-z]+)")x"), offered) << name;
  }
}

}  // namespace
}  // namespace pitcrew::desired
