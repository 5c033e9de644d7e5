#include "base/ld_cache.h"

#include <gtest/gtest.h>

namespace pitcrew::base {
namespace {

constexpr std::size_t kFlags = 28;  // of the header

TEST(LdCache, OnlyTheOwnByteOrderIsRead) {
  LdCache cache;
  cache.entries.push_back(
      {.flags = 0x0303, .name = "libcuda.so.1", .path = "/usr/lib64/libcuda.so.1"});
  std::string bytes = WriteLdCache(cache);
  for (const char known : {'\0', '\2'}) {  // not said, little-endian
    bytes[kFlags] = known;
    const auto read = ParseLdCache(bytes);
    ASSERT_TRUE(read) << read.error().ToString();
    ASSERT_EQ(read->entries.size(), 1U);
    EXPECT_EQ(read->entries[0].name, "libcuda.so.1");
  }
  for (const char other : {'\1', '\3'}) {  // not valid, big-endian
    bytes[kFlags] = other;
    EXPECT_FALSE(ParseLdCache(bytes)) << static_cast<int>(other);
  }
}

TEST(LdCache, NumbersWithinNamesAreCompared) {
  EXPECT_EQ(CompareLibraryNames("lib1.so", "lib1.so"), 0);
  EXPECT_LT(CompareLibraryNames("lib9.so", "lib10.so"), 0);
  EXPECT_GT(CompareLibraryNames("lib10.so", "lib9.so"), 0);
  EXPECT_LT(CompareLibraryNames("lib.so.1.2", "lib.so.1.10"), 0);
}

}  // namespace
}  // namespace pitcrew::base
