#include "io/url.h"

#include <gtest/gtest.h>

namespace pitcrew::io {
namespace {

TEST(Url, HasItsParts) {
  const auto url = ParseUrl("HTTPS://API.example:6443/api/v1/pods?limit=5&x=%2F#here");
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->host, "API.example");
  EXPECT_EQ(url->port, "6443");
  EXPECT_EQ(url->target, "/api/v1/pods?limit=5&x=%2F");
  EXPECT_EQ(url->authority(), "API.example:6443");
}

TEST(Url, WhatIsNotThereHasItsDefault) {
  EXPECT_EQ(ParseUrl("https://a")->port, "443");
  EXPECT_EQ(ParseUrl("http://a")->port, "80");
  EXPECT_EQ(ParseUrl("http://a:")->port, "80");
  EXPECT_EQ(ParseUrl("http://a")->target, "/");
  EXPECT_EQ(ParseUrl("http://a?watch=1")->target, "/?watch=1");
  EXPECT_EQ(ParseUrl("http://a:080/x")->authority(), "a");
  EXPECT_EQ(ParseUrl("https://a:80")->authority(), "a:80");
  EXPECT_EQ(ParseUrl("https://a")->host_and_port(), "a:443");
  EXPECT_EQ(ParseUrl("http://a:65535")->port, "65535");
  EXPECT_EQ(ParseUrl("http://AZ.az-09_/x")->host, "AZ.az-09_");
}

TEST(Url, AnIpv6AddressHasBracketsWhereverAPortMayFollow) {
  const auto url = ParseUrl("https://[fd00::1]:6443/x");
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_EQ(url->host, "fd00::1");
  EXPECT_EQ(url->authority(), "[fd00::1]:6443");
  EXPECT_EQ(url->host_and_port(), "[fd00::1]:6443");
  EXPECT_EQ(ParseUrl("https://[fd00::1]")->authority(), "[fd00::1]");
  EXPECT_EQ(ParseUrl("https://[fd00::1]")->host_and_port(), "[fd00::1]:443");
}

TEST(Url, UserAndPasswordAreDecoded) {
  const auto url = ParseUrl("http://us%40er:p%3Ass%2Fword@proxy:3128");
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_EQ(url->user, "us@er");
  EXPECT_EQ(url->password, "p:ss/word");
  EXPECT_EQ(url->host, "proxy");
  EXPECT_EQ(ParseUrl("http://us@er:x@proxy")->user, "us@er");
  EXPECT_EQ(ParseUrl("http://%30%39%4a%4A%4f%4F%aa%FF:x@proxy")->user, "09JJOO\xaa\xff");
  // RFC 7617's own example.
  EXPECT_EQ(BasicCredentials(*ParseUrl("http://Aladdin:open%20sesame@proxy")),
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
  EXPECT_EQ(BasicCredentials(*ParseUrl("http://user@proxy")), "Basic dXNlcjo=");
  EXPECT_EQ(BasicCredentials(*ParseUrl("http://proxy")), std::nullopt);
}

TEST(Url, AnythingElseIsRefused) {
  for (const char* text : {"",
                           "a",
                           "a:80",
                           "//a",
                           "ftp://a",
                           "https://",
                           "https:///x",
                           "http://:80",
                           "http://a b",
                           "http://a/b c",
                           "http://a\r\nX: y",
                           "http://a/\x7F",
                           "http://a:x",
                           "http://a:-1",
                           "http://a:+1",
                           "http://a:0",
                           "http://a:65536",
                           "http://a:99999999999999999999",
                           "http://[fd00::1",
                           "http://[fd00::1]x",
                           "http://[1.2.3.4]",
                           "http://[x::1]",
                           "http://fd00::1",
                           "http://a%2fb",
                           "http://u%zz@a",
                           "http://u%4@a",
                           "http://u%@a",
                           "http://u%4g@a",
                           "http://u%G4@a",
                           "http://u%4/@a",
                           "http://u%4:@a",
                           "http://u%`4@a",
                           "http://a\\b",
                           "http://a,b"}) {
    const auto url = ParseUrl(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().reason, "InvalidUrl") << text;
  }
}

TEST(Url, AnErrorTellsNoPassword) {
  EXPECT_EQ(ParseUrl("http://user:secret@a:x").error().message.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace pitcrew::io
