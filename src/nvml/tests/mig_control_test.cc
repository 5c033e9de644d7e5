// Changing MIG layouts, on the simulated driver.
#include "nvml/mig_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "nvml/nvml.h"
#include "simulation/state/incidents.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::nvml {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// NVML's numbers of profiles on an A100.
constexpr unsigned kOneSlice = 0;
constexpr unsigned kThreeSlices = 2;

class MigControlTest : public ::testing::Test {
 protected:
  void Start(const std::string& description) {
    fs::create_directories(root_ / "usr/lib64");
    fs::copy_file(test_support::BuildFolder() / "lib/libnvidia-ml.so.1",
                  root_ / "usr/lib64/libnvidia-ml.so.1");
    node_ = std::make_unique<simulation::TestNode>(description);
    node_->Use();
    auto library = Library::Open({root_});
    ASSERT_TRUE(library) << library.error().ToString();
    library_ = *std::move(library);
    mig_ = Open(0);
  }
  std::unique_ptr<MigControl> Open(std::size_t index) {
    const auto inventory = library_->ReadInventory();
    EXPECT_TRUE(inventory) << inventory.error().ToString();
    auto mig = library_->OpenMig(inventory->devices.at(index).uuid);
    EXPECT_TRUE(mig) << mig.error().ToString();
    return mig ? *std::move(mig) : nullptr;
  }
  ~MigControlTest() override { fs::remove_all(root_); }

  InstanceProfile Profile(unsigned index) {
    const auto profiles = mig_->GpuInstanceProfiles();
    EXPECT_TRUE(profiles) << profiles.error().ToString();
    for (const auto& profile : profiles.value_or(std::vector<InstanceProfile>())) {
      if (profile.index == index) return profile;
    }
    ADD_FAILURE() << "no profile " << index;
    return {};
  }

  fs::path root_ = simulation::MakeTemporaryFolder();
  std::unique_ptr<simulation::TestNode> node_;
  std::shared_ptr<Library> library_;
  std::unique_ptr<MigControl> mig_;
};

constexpr const char* kMigGpu = "gpus: [{profile: A100-40, mig: {enabled: true}}]";

TEST_F(MigControlTest, TheModeChangesWhereTheGpuIsIdle) {
  Start("gpus: [{profile: H100-80}]");
  EXPECT_EQ(*mig_->Mode(), (gpu::MigMode{false, false}));
  const auto set = mig_->SetMode(true);
  ASSERT_TRUE(set) << set.error().ToString();
  EXPECT_EQ(*mig_->Mode(), (gpu::MigMode{*set, true}));
}

TEST_F(MigControlTest, AGpuWithoutMigSaysSo) {
  Start("gpus: [{profile: T4}]");
  EXPECT_EQ(mig_->Mode().error().reason, "NotSupported");
  EXPECT_FALSE(mig_->SetMode(true));
  EXPECT_THAT(mig_->GpuInstanceProfiles().value(), IsEmpty());
}

// A GPU that cannot be asked is not one without profiles.
TEST_F(MigControlTest, AGpuThatIsLostHasNoListOfProfiles) {
  Start(kMigGpu);
  ASSERT_TRUE(node_->file().Update([](simulation::NodeState& node) {
    LoseGpu(node, 0);
    return true;
  }));
  const auto profiles = mig_->GpuInstanceProfiles();
  ASSERT_FALSE(profiles);
  EXPECT_EQ(profiles.error().reason, "GpuIsLost");
}

// The first drivers with MIG have fewer profiles than this code asks for, and call the rest an
// invalid argument.
TEST(MigControl, ADriverThatDoesNotKnowAProfileIsAskedForTheOthers) {
  const fs::path root = simulation::MakeTemporaryFolder();
  fs::create_directories(root / "usr/lib64");
  fs::copy_file(test_support::BuildFolder() / "lib/libnvml-first-mig-driver.so",
                root / "usr/lib64/libnvidia-ml.so.1");
  const auto library = Library::Open({root});
  ASSERT_TRUE(library) << library.error().ToString();
  const auto mig = (*library)->OpenMig("GPU-old");
  ASSERT_TRUE(mig) << mig.error().ToString();
  const auto profiles = (*mig)->GpuInstanceProfiles();
  ASSERT_TRUE(profiles) << profiles.error().ToString();
  ASSERT_THAT(*profiles, SizeIs(1));
  EXPECT_EQ(profiles->front().id, 19U);
  fs::remove_all(root);
}

TEST_F(MigControlTest, InstancesAreMadeListedAndRemoved) {
  Start(kMigGpu);
  EXPECT_THAT(mig_->GpuInstances().value(), IsEmpty());
  const auto made = mig_->CreateGpuInstance(Profile(kThreeSlices).id, std::nullopt);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_THAT(mig_->GpuInstances().value(), ElementsAre(*made));
  EXPECT_THAT(mig_->ComputeInstances(made->id).value(), IsEmpty());
  const auto profiles = mig_->ComputeInstanceProfiles(made->id);
  ASSERT_TRUE(profiles);
  const auto compute = mig_->CreateComputeInstance(made->id, profiles->back().id, std::nullopt);
  ASSERT_TRUE(compute) << compute.error().ToString();
  EXPECT_THAT(mig_->ComputeInstances(made->id).value(), ElementsAre(*compute));
  const auto inventory = library_->ReadInventory();
  EXPECT_THAT(inventory->devices[0].mig_devices, SizeIs(1));

  EXPECT_EQ(mig_->DestroyGpuInstance(made->id).error().reason, "InUse");
  ASSERT_TRUE(mig_->DestroyComputeInstance(made->id, compute->id));
  ASSERT_TRUE(mig_->DestroyGpuInstance(made->id));
  EXPECT_THAT(mig_->GpuInstances().value(), IsEmpty());
  EXPECT_EQ(mig_->DestroyGpuInstance(made->id).error().code, base::Code::kNotFound);
}

TEST_F(MigControlTest, PlacementsAreChosenFromThePossibleOnes) {
  Start(kMigGpu);
  const auto profile = Profile(kThreeSlices);
  const auto possible = mig_->GpuInstancePlacements(profile.id);
  ASSERT_TRUE(possible) << possible.error().ToString();
  ASSERT_THAT(*possible, ElementsAre(Placement{0, 4}, Placement{4, 4}));
  const auto made = mig_->CreateGpuInstance(profile.id, possible->at(1));
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_EQ(made->placement, possible->at(1));
  const auto taken = mig_->CreateGpuInstance(profile.id, possible->at(1));
  EXPECT_EQ(taken.error().reason, "InsufficientResources");
  EXPECT_THAT(taken.error().message, HasSubstr("make a GPU instance on GPU GPU-"));
  const auto small = mig_->CreateGpuInstance(Profile(kOneSlice).id, Placement{0, 1});
  ASSERT_TRUE(small);
  EXPECT_THAT(mig_->GpuInstances().value(), ElementsAre(*small, *made)) << "by placement";
}

TEST_F(MigControlTest, ComputeInstancesHavePlacementsToo) {
  Start(kMigGpu);
  const auto parent = mig_->CreateGpuInstance(Profile(kThreeSlices).id, std::nullopt);
  ASSERT_TRUE(parent);
  const auto profiles = mig_->ComputeInstanceProfiles(parent->id);
  ASSERT_TRUE(profiles);
  const auto one = profiles->front();
  ASSERT_EQ(one.slice_count, 1U);
  const auto last = mig_->CreateComputeInstance(parent->id, one.id, Placement{2, 1});
  ASSERT_TRUE(last) << last.error().ToString();
  EXPECT_EQ(last->placement, (Placement{2, 1}));
}

TEST_F(MigControlTest, ManyInstancesFillTheGpu) {
  Start(kMigGpu);
  const auto profile = Profile(kOneSlice);
  for (unsigned i = 0; i < profile.instance_count; ++i) {
    ASSERT_TRUE(mig_->CreateGpuInstance(profile.id, std::nullopt));
  }
  EXPECT_THAT(mig_->GpuInstances().value(), SizeIs(profile.instance_count));
  EXPECT_FALSE(mig_->CreateGpuInstance(profile.id, std::nullopt));
}

}  // namespace
}  // namespace pitcrew::nvml
