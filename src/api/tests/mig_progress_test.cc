#include "api/mig_progress.h"

#include <gtest/gtest.h>

namespace pitcrew::api {
namespace {

TEST(MigProgress, IsReadAsItWasWritten) {
  const MigProgress progress{.config = "all-1g.10gb",
                             .phase = "waiting",
                             .since = "2026-01-02T03:04:05Z",
                             .deadline = "2026-01-02T03:34:05Z",
                             .message = "2 pods use GPUs",
                             .waiting_for = {"ml/training-0", "ml/training-1"},
                             .gpus = {{0, "done"}, {11, "creating"}}};
  EXPECT_EQ(ParseMigProgress(ToText(progress)), progress);
  EXPECT_EQ(ParseMigProgress(ToText({})), MigProgress());
}

TEST(MigProgress, OfHundredsOfPodsSomeAreNamed) {
  MigProgress progress;
  for (int i = 0; i < 500; ++i) progress.waiting_for.push_back("ml/pod-" + std::to_string(i));
  const auto read = ParseMigProgress(ToText(progress));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->waiting_for.size(), 20U);
}

TEST(MigProgress, WhatOthersWroteDoesNoHarm) {
  EXPECT_EQ(ParseMigProgress(""), std::nullopt);
  EXPECT_EQ(ParseMigProgress("[]"), std::nullopt);
  EXPECT_EQ(ParseMigProgress(R"({"phase": 7, "waitingFor": {}, "gpus": {"x": "done", "1": 2}})"),
            MigProgress());
}

}  // namespace
}  // namespace pitcrew::api
