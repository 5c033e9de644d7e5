// Quantities as the API server rewrites them.
#include "desired/quantity.h"

#include <gtest/gtest.h>

#include "desired/owned_object.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

TEST(Quantity, TheServersFormIsTheSame) {
  EXPECT_TRUE(SameQuantity("0.5", "500m"));
  EXPECT_TRUE(SameQuantity(1000000, "1M"));
  EXPECT_TRUE(SameQuantity(2, "2"));
  EXPECT_TRUE(SameQuantity("1e9", "1G"));
  EXPECT_TRUE(SameQuantity("1024Mi", "1Gi"));
  EXPECT_TRUE(SameQuantity("1.5Gi", "1536Mi"));
  EXPECT_TRUE(SameQuantity("-1", -1));
  EXPECT_TRUE(SameQuantity("0", "0m"));
  EXPECT_TRUE(SameQuantity("8Ei", "8388608Ti"));
}

TEST(Quantity, AnythingElseIsNot) {
  EXPECT_FALSE(SameQuantity("1", "1m"));
  EXPECT_FALSE(SameQuantity("1M", "1Mi"));
  EXPECT_FALSE(SameQuantity("1", "one"));
  EXPECT_FALSE(SameQuantity("", ""));
  EXPECT_FALSE(SameQuantity("1.2.3", "1"));
  EXPECT_FALSE(SameQuantity(true, "1"));
  EXPECT_FALSE(SameQuantity("1e99", "1e99"));
  EXPECT_FALSE(SameQuantity("0.0000000001", "0.0000000001"));
}

// Only where quantities stand: a label "0.5" is not "500m".
TEST(Quantity, CoversKnowsWhereTheyStand) {
  const Json live = {{"resources", {{"limits", {{"cpu", "500m"}, {"memory", "1Gi"}}}}}, {"x", "1"}};
  EXPECT_TRUE(Covers(live, {{"resources", {{"limits", {{"cpu", "0.5"}}}}}}));
  EXPECT_FALSE(Covers(live, {{"resources", {{"limits", {{"cpu", "0.6"}}}}}}));
  EXPECT_FALSE(Covers(live, {{"resources", {{"limits", {{"gpu", "1"}}}}}}));
  EXPECT_FALSE(Covers(live, {{"x", "1000m"}}));
}

}  // namespace
}  // namespace pitcrew::desired
