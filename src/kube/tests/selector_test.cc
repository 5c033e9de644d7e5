#include "kube/selector.h"

#include <gtest/gtest.h>

namespace pitcrew::kube {
namespace {

TEST(Selector, NamesEveryLabelWithItsValue) {
  EXPECT_EQ(SelectorOf({{"app", "x"}, {"example.com/tier", ""}}), "app=x,example.com/tier=");
  EXPECT_EQ(SelectorOf({}), "");
}

}  // namespace
}  // namespace pitcrew::kube
