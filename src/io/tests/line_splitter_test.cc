#include <gtest/gtest.h>

#include "io/http_client.h"

namespace pitcrew::io {
namespace {

TEST(LineSplitter, CutsWherePiecesDoNot) {
  LineSplitter lines;
  ASSERT_TRUE(lines.Append("one\ntw"));
  EXPECT_EQ(lines.Next(), "one");
  EXPECT_EQ(lines.Next(), std::nullopt);
  ASSERT_TRUE(lines.Append("o\r\n\n\nthree"));
  EXPECT_EQ(lines.Next(), "two");
  EXPECT_EQ(lines.Next(), std::nullopt);
  EXPECT_EQ(lines.pending(), 5U);
  ASSERT_TRUE(lines.Append("\n"));
  EXPECT_EQ(lines.Next(), "three");
}

TEST(LineSplitter, EveryCutGivesTheSameLines) {
  const std::string text = "alpha\nbeta\n\ngamma delta\n";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    LineSplitter lines;
    std::vector<std::string> found;
    for (std::size_t at = 0; at < text.size(); at += size) {
      ASSERT_TRUE(lines.Append(std::string_view(text).substr(at, size)));
      while (auto line = lines.Next()) found.push_back(*line);
    }
    EXPECT_EQ(found, (std::vector<std::string>{"alpha", "beta", "gamma delta"}));
  }
}

TEST(LineSplitter, AnEndlessLineIsRefused) {
  LineSplitter lines(10);
  EXPECT_TRUE(lines.Append("12345678"));
  EXPECT_FALSE(lines.Append("12345678"));
  EXPECT_EQ(lines.pending(), 0U);
}

TEST(LineSplitter, KeepsNoMoreThanItMust) {
  LineSplitter lines(1000);
  for (int i = 0; i < 10000; ++i) {
    ASSERT_TRUE(lines.Append("a line of some length\n"));
    ASSERT_EQ(lines.Next(), "a line of some length");
  }
  EXPECT_EQ(lines.pending(), 0U);
}

}  // namespace
}  // namespace pitcrew::io
