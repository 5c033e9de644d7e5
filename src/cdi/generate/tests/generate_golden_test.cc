// Every folder of tests/data is one case: input.yaml (inventory, tree of files, options) and
// expected.yaml, the exact text of the specification. The tree is laid out in a temporary folder;
// device nodes, which only root can make, are given as values.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"
#include "base/testing/elf_file.h"
#include "cdi/format.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "cdi/generate/tegra.h"
#include "codec/yaml.h"
#include "host/glob.h"
#include "tests/support/folders.h"

namespace pitcrew::cdi_generate {
namespace {

using codec::Json;
namespace fs = std::filesystem;

// "path: ~" a file, "path: -> target" a link, "path: {soname: X}" a library, "path: {text: X}" a
// file with that text.
void LayOut(const fs::path& root, const Json& tree) {
  for (const auto& [path, value] : tree.items()) {
    const fs::path target = root.string() + path;
    fs::create_directories(target.parent_path());
    if (value.is_string()) {
      fs::create_symlink(value.get<std::string>().substr(3), target);
      continue;
    }
    std::string content = "x";
    if (value.is_object() && value.contains("soname")) {
      content = base::testing::MakeElfLibrary(value["soname"].get<std::string>());
    } else if (value.is_object()) {
      content = value["text"].get<std::string>();
    }
    ASSERT_TRUE(base::WriteFileAtomically(target, content, 0755));
  }
}

// "/dev/nvidia0: 195:0 0666 [group]"
std::vector<Node> ReadNodes(const Json& nodes) {
  std::vector<Node> all;
  for (const auto& [path, value] : nodes.items()) {
    const auto words = base::SplitTrimmed(value.get<std::string>(), ' ');
    const auto numbers = base::Split(words[0], ':');
    all.push_back(
        {path, static_cast<std::uint32_t>(*base::ParseUnsigned(numbers[0])),
         static_cast<std::uint32_t>(*base::ParseUnsigned(numbers[1])),
         static_cast<std::uint32_t>(std::stoul(words[1], nullptr, 8)),
         words.size() > 2 ? static_cast<std::uint32_t>(*base::ParseUnsigned(words[2])) : 0});
  }
  return all;
}

gpu::Inventory ReadInventory(const Json& json) {
  gpu::Inventory inventory;
  inventory.driver_version = json.value("driverVersion", "");
  inventory.cuda_version = json.value("cudaVersion", 0);
  for (const auto& item : json.value("devices", Json::array())) {
    gpu::Device device;
    device.index = static_cast<unsigned>(inventory.devices.size());
    device.minor_number = item.value("minor", device.index);
    device.uuid = item["uuid"].get<std::string>();
    if (item.contains("pci")) device.pci = *gpu::PciAddress::Parse(item["pci"].get<std::string>());
    if (item.contains("mig")) {
      device.mig_mode = base::Observed<gpu::MigMode>::Present({true, true});
      for (const auto& mig_item : item["mig"]) {
        gpu::MigDevice mig;
        mig.index = mig_item["index"].get<unsigned>();
        mig.uuid = mig_item["uuid"].get<std::string>();
        mig.gpu_instance_id = mig_item["gi"].get<unsigned>();
        mig.compute_instance_id = mig_item["ci"].get<unsigned>();
        mig.profile = *gpu::MigProfile::Parse(mig_item["profile"].get<std::string>());
        device.mig_devices.push_back(std::move(mig));
      }
    }
    device.name = item.value("name", "");
    if (item.contains("unsupported")) {
      device.fault = base::Error{base::Code::kUnsupported, "NotSupported", item["unsupported"]};
    }
    if (item.contains("fault")) device.fault = base::Unavailable("GpuIsLost", item["fault"]);
    inventory.devices.push_back(std::move(device));
  }
  return inventory;
}

Options ReadOptions(const Json& json) {
  Options options;
  options.kind = json.value("kind", options.kind);
  options.driver_root = json.value("driverRoot", options.driver_root);
  options.dev_root = json.value("devRoot", options.dev_root);
  options.hook_path = json.value("hookPath", options.hook_path);
  options.disabled_hooks = json.value("disabledHooks", options.disabled_hooks);
  options.merged_device = json.value("mergedDevice", true);
  return options;
}

struct Outcome {
  cdi::Spec spec;
  std::vector<std::string> omitted;  // reasons
};

base::Result<Outcome> GenerateNvml(const Json& input, const fs::path& root) {
  const auto inventory = ReadInventory(input.value("inventory", Json::object()));
  LocateOptions locate{host::Root(root / "driver"), host::Root(root / "driver"),
                       inventory.driver_version, root / "sys", root / "proc"};
  locate.mps_folder = input.value("mpsFolder", "");
  TRY_ASSIGN(auto files, Locate(locate));
  files.nodes = ReadNodes(input.value("nodes", Json::object()));
  const Options options = ReadOptions(input.value("options", Json::object()));
  Outcome outcome;
  if (input.value("mode", "nvml") == "management") {
    TRY_ASSIGN(outcome.spec, GenerateManagement(files, options));
    return outcome;
  }
  TRY_ASSIGN(auto generated, GenerateGpus(inventory, files, options));
  outcome.spec = std::move(generated.spec);
  for (const auto& error : generated.omitted) outcome.omitted.push_back(error.reason);
  return outcome;
}

// "lists: [text of each file]", "ignoredLinks", "oneDevice".
base::Result<Outcome> GenerateCsv(const Json& input, const fs::path& root) {
  const auto inventory = ReadInventory(input.value("inventory", Json::object()));
  host::TegraLists lists;
  for (const auto& text : input["lists"]) host::AppendTegraLines(text.get<std::string>(), lists);
  LocateOptions locate;
  locate.driver_root = locate.dev_root = host::Root(root / "driver");
  locate.sys = root / "sys";
  locate.proc = root / "proc";
  TRY_ASSIGN(auto tegra,
             LocateTegra(locate, lists, input.value("ignoredLinks", std::vector<std::string>{})));
  DriverFiles files;
  TRY(LocateDevices(locate, files));
  files.nodes = ReadNodes(input.value("nodes", Json::object()));
  for (const auto& node : files.nodes) {
    const bool listed = std::ranges::any_of(lists.devices, [&](const std::string& pattern) {
      return host::FitsPattern(pattern, node.path) ||
             host::FitsPattern("/dev/" + pattern, node.path);
    });
    if (listed) tegra.nodes.push_back(node);
  }
  TegraOptions tegra_options;
  tegra_options.one_device = input.value("oneDevice", false);
  Outcome outcome;
  TRY_ASSIGN(auto generated,
             GenerateTegra(input.contains("inventory") ? &inventory : nullptr, tegra, files,
                           ReadOptions(input.value("options", Json::object())), tegra_options));
  outcome.spec = std::move(generated.spec);
  if (generated.undivided) outcome.omitted.push_back(generated.undivided->reason);
  return outcome;
}

class Case : public ::testing::TestWithParam<std::string> {};

TEST_P(Case, SpecificationIsAsExpected) {
  const fs::path folder = test_support::TestData() / GetParam();
  const auto text = base::ReadFile(folder / "input.yaml");
  ASSERT_TRUE(text) << text.error().message;
  const auto input = codec::ParseYaml(*text, "input.yaml");
  ASSERT_TRUE(input) << input.error().message;
  SCOPED_TRACE(input->value("reference", ""));
  const fs::path root = fs::path(::testing::TempDir()) / ("pitcrew-cdi-" + GetParam());
  fs::remove_all(root);
  LayOut(root / "driver", input->value("tree", Json::object()));
  LayOut(root / "sys", input->value("sys", Json::object()));
  LayOut(root / "proc", input->value("proc", Json::object()));

  const auto outcome = input->value("mode", "nvml") == "csv" ? GenerateCsv(*input, root)
                                                             : GenerateNvml(*input, root);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_TRUE(cdi::Validate(outcome->spec)) << cdi::Validate(outcome->spec).error().message;
  EXPECT_EQ(outcome->omitted, input->value("omitted", std::vector<std::string>{}));
  if (std::getenv("PITCREW_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(
        base::WriteFileAtomically(folder / "expected.yaml", cdi::ToYamlText(outcome->spec)));
  }
  const auto expected = base::ReadFile(folder / "expected.yaml");
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_EQ(cdi::ToYamlText(outcome->spec), *expected);
  fs::remove_all(root);
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
}  // namespace pitcrew::cdi_generate
