#include "codec/base64.h"

#include <gtest/gtest.h>

namespace pitcrew::codec {
namespace {

// RFC 4648, section 10.
TEST(Base64, TestVectorsOfTheRfc) {
  const std::pair<std::string_view, std::string_view> kCases[] = {{"", ""},
                                                                  {"f", "Zg=="},
                                                                  {"fo", "Zm8="},
                                                                  {"foo", "Zm9v"},
                                                                  {"foob", "Zm9vYg=="},
                                                                  {"fooba", "Zm9vYmE="},
                                                                  {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : kCases) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text), std::string(bytes));
  }
}

TEST(Base64, WrongTextIsRefused) {
  EXPECT_EQ(DecodeBase64("Zm9v\nYmFy\n"), "foobar");
  EXPECT_FALSE(DecodeBase64("Zm9"));
  EXPECT_FALSE(DecodeBase64("Zm?v"));
  EXPECT_FALSE(DecodeBase64("Zg==Zg=="));
  EXPECT_FALSE(DecodeBase64("Z==="));
}

}  // namespace
}  // namespace pitcrew::codec
