#include "node/validations/mig_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::node::validations {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kApp = "nvidia-device-plugin-daemonset";

class MigChange : public ::testing::Test {
 protected:
  test_support::TemporaryFolder root_;
  StatusFolder folder_{root_.path()};
};

TEST_F(MigChange, IsReadByFollowers) {
  EXPECT_THAT(ReadMigChange(folder_).value(), IsEmpty());
  ASSERT_TRUE(AnnounceMigChange(folder_, {"GPU-b", "GPU-a"}));
  auto follower = MigFollower::Register(folder_, kApp);
  ASSERT_TRUE(follower) << follower.error().message;
  EXPECT_THAT(follower->changing(), ElementsAre("GPU-a", "GPU-b"));
  ASSERT_TRUE(AnnounceMigChange(folder_, {}));
  EXPECT_THAT(follower->changing(), ElementsAre("GPU-a", "GPU-b")) << "until the next look";
  ASSERT_TRUE(follower->Refresh());
  EXPECT_THAT(follower->changing(), IsEmpty());
}

TEST_F(MigChange, AComponentFollowsAsLongAsItRuns) {
  EXPECT_EQ(IsMigFollowed(folder_, kApp), false);
  {
    const auto follower = MigFollower::Register(folder_, kApp);
    ASSERT_TRUE(follower) << follower.error().message;
    EXPECT_EQ(IsMigFollowed(folder_, kApp), true);
    EXPECT_EQ(IsMigFollowed(folder_, "gpu-feature-discovery"), false);
    // A rolling update: the next one comes before this one is gone.
    const auto successor = MigFollower::Register(folder_, kApp);
    ASSERT_TRUE(successor) << successor.error().message;
  }
  EXPECT_EQ(IsMigFollowed(folder_, kApp), false) << "its file is still there";
}

TEST_F(MigChange, AnUnreadableAnnouncementChangesNothing) {
  ASSERT_TRUE(AnnounceMigChange(folder_, {"GPU-a"}));
  auto follower = MigFollower::Register(folder_, kApp);
  ASSERT_TRUE(follower);
  std::filesystem::remove(root_.path() / kMigChange);
  std::filesystem::create_directory(root_.path() / kMigChange);
  EXPECT_FALSE(follower->Refresh());
  EXPECT_THAT(follower->changing(), ElementsAre("GPU-a"));
}

}  // namespace
}  // namespace pitcrew::node::validations
