// Every layout of the operator's default configuration, and every generated one, on every simulated
// model that can do MIG: applied, asserted, exported, and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "codec/yaml.h"
#include "node/mig/export.h"
#include "node/mig/plan.h"
#include "support_simulated.h"
#include "tests/support/folders.h"

namespace pitcrew::node::mig {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

Configuration Defaults() {
  const auto file =
      test_support::SourceFolder() / "src/desired/manifests/state-mig-manager/0400_config_map.yaml";
  const auto manifest = codec::ParseYaml(*base::ReadFile(file));
  EXPECT_TRUE(manifest) << manifest.error().ToString();
  const auto configuration =
      ParseConfiguration(codec::FindString(*manifest, {"data", "config.yaml"}), "config.yaml");
  EXPECT_TRUE(configuration) << configuration.error().ToString();
  return configuration.value_or(Configuration());
}

// As many as NVML says that fit of each profile alone, by name.
ProfileCounts MostOf(const Gpu& gpu) {
  const auto boards = DiscoverProfiles({gpu});
  EXPECT_TRUE(boards) << boards.error().ToString();
  return boards->at(0).counts;
}

class DefaultLayouts : public SimulatedMig, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { Start(std::string("gpus: [{profile: ") + GetParam() + ", count: 2}]"); }

  // The entry that is meant for this node's boards; null: none.
  static const ConfigEntry* EntryFor(const NamedConfig& config, const Gpu& gpu) {
    for (const auto& entry : config) {
      if (entry.IsFor(gpu.id, 0)) return &entry;
    }
    return nullptr;
  }

  void GoThrough(const std::string& name, const NamedConfig& config, const ProfileCounts& most) {
    SCOPED_TRACE(name);
    const ConfigEntry* entry = EntryFor(config, Read().at(0));
    const auto before = Serials();
    const auto applied = ApplyConfig(config);
    if (entry == nullptr) {
      EXPECT_TRUE(applied) << "nothing to do";
      EXPECT_FALSE(AssertConfig(Read(), config));
      return;
    }
    bool fits = true;
    for (const auto& [profile, count] : entry->mig_devices) {
      const auto known = most.find(profile);
      fits = fits && known != most.end() && known->second >= count;
    }
    if (!fits) {
      EXPECT_FALSE(applied);
      EXPECT_EQ(Serials(), before) << "nothing is torn down for it";
      return;
    }
    ASSERT_TRUE(applied) << applied.error().ToString();
    ++applied_;
    const auto asserted = AssertConfig(Read(), config);
    EXPECT_TRUE(asserted) << asserted.error().ToString();
    const auto exported = ExportConfiguration(Read(), "current");
    ASSERT_TRUE(exported) << exported.error().ToString();
    const ConfigEntry expected{.mig_enabled = entry->mig_enabled,
                               .mig_devices = entry->mig_devices};
    EXPECT_THAT(exported->configs.at("current"), ::testing::ElementsAre(expected));
    // What is exported can be applied, and changes nothing.
    EXPECT_THAT(ApplyConfig(exported->configs.at("current"))->plan.changes, IsEmpty());
  }

  int applied_ = 0;
};

TEST_P(DefaultLayouts, OfTheOperator) {
  const auto defaults = Defaults();
  EXPECT_EQ(defaults.configs.size(), 81U) << "mig-manager.md section 11";
  const auto most = MostOf(Read().at(0));
  for (const auto& [name, config] : defaults.configs) GoThrough(name, config, most);
  EXPECT_GE(applied_, 5);
  ASSERT_TRUE(ApplyToAll({}, false));
  EXPECT_THAT(Counts(), Each(ProfileCounts{{"off", 1}}));
}

TEST_P(DefaultLayouts, Generated) {
  const auto boards = DiscoverProfiles(Read());
  ASSERT_TRUE(boards) << boards.error().ToString();
  const auto generated = GenerateConfiguration(*boards);
  for (const auto& [name, config] : generated.configs) {
    GoThrough(name, config, boards->at(0).counts);
  }
  EXPECT_EQ(applied_, static_cast<int>(generated.configs.size())) << "each fits its own board";
  EXPECT_TRUE(generated.configs.contains("all-balanced"));
}

INSTANTIATE_TEST_SUITE_P(Models, DefaultLayouts,
                         ::testing::Values("A100-40", "A100-80", "A30", "B200", "B300", "GB200",
                                           "H100-80", "H100-NVL", "H100-PCIE", "H200",
                                           "RTX-PRO-6000"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace pitcrew::node::mig
