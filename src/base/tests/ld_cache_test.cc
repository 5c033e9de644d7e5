#include "base/ld_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "base/file.h"

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

// A file of 400 KB whose entries all share one name of 4 KB stands for 128 MB of text.
TEST(LdCache, SharedNamesDoNotMultiply) {
  LdCache cache;
  cache.entries = {{0x303, "libx.so.1", "/" + std::string(4000, 'x'), 0, 0}};
  std::string bytes = WriteLdCache(cache);
  constexpr std::size_t kHeader = 48;
  constexpr std::size_t kEntry = 24;
  constexpr std::uint32_t kCount = 17'000;
  std::string many;
  for (std::uint32_t i = 0; i < kCount; ++i) many += bytes.substr(kHeader, kEntry);
  bytes.replace(kHeader, kEntry, many);
  std::memcpy(bytes.data() + 20, &kCount, sizeof(kCount));
  // The extension and both names have moved.
  const auto move = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    value += static_cast<std::uint32_t>((kCount - 1) * kEntry);
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  };
  move(32);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    move(kHeader + i * kEntry + 4);
    move(kHeader + i * kEntry + 8);
  }
  const auto parsed = ParseLdCache(bytes);
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("too long"), std::string::npos) << parsed.error().message;
}

TEST(LdCache, ReadsTheSystemsOwnAndWritesItBackEqual) {
  const auto bytes = ReadFile("/etc/ld.so.cache");
  if (!bytes) GTEST_SKIP() << "this system has no /etc/ld.so.cache";
  const auto cache = ParseLdCache(*bytes);
  ASSERT_TRUE(cache) << cache.error().message;
  EXPECT_GT(cache->entries.size(), 10U);
  const auto again = ParseLdCache(WriteLdCache(*cache));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->entries, cache->entries);
  EXPECT_EQ(again->hwcaps, cache->hwcaps);
}

TEST(LdCache, DamagedCachesAreErrorsNotCrashes) {
  LdCache cache;
  cache.hwcaps = {"x86-64-v3"};
  cache.entries = {{0x303, "liba.so.1", "/a/liba.so.1", 0, 0}, {0x303, "libb.so", "/b", 0, 0}};
  const std::string whole = WriteLdCache(cache);
  for (std::size_t size = 0; size < whole.size(); ++size) (void)ParseLdCache(whole.substr(0, size));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(0xff);
    (void)ParseLdCache(damaged);
  }
  EXPECT_FALSE(ParseLdCache(""));
  EXPECT_FALSE(ParseLdCache("ld.so-1.7.0"));
}

// glibc's _dl_cache_libcmp.
TEST(LdCache, NamesCompareByNumber) {
  EXPECT_GT(CompareLibraryNames("lib.so.10", "lib.so.9"), 0);
  EXPECT_EQ(CompareLibraryNames("lib.so.1", "lib.so.01"), 0);
  EXPECT_LT(CompareLibraryNames("liba.so", "liba.so.1"), 0);
  EXPECT_GT(CompareLibraryNames("lib1", "liba"), 0);
  // Bytes beyond ASCII: one order, from whichever side it is looked at.
  for (const char* name : {"\x8d", "a\x8d", "a1\xff", "1"}) {
    const int order = CompareLibraryNames(name, "a");
    const int reversed = CompareLibraryNames("a", name);
    EXPECT_EQ(order < 0, reversed > 0) << name;
    EXPECT_EQ(CompareLibraryNames("", name) < 0, CompareLibraryNames(name, "") > 0) << name;
  }
}

}  // namespace
}  // namespace pitcrew::base
