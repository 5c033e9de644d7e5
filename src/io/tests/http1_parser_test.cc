// RFC 9112.
#include "io/http1_parser.h"

#include <gtest/gtest.h>

#include <random>

namespace pitcrew::io {
namespace {

struct Answer {
  int status = 0;
  std::vector<HttpHeader> headers{};
  std::string body{};
  bool done = false;
  bool keep_alive = false;
  std::optional<std::string> error{};
};

// Feeds `bytes` in pieces that end at multiples of `step`, then their end if `ended`.
Answer Parse(std::string_view bytes, std::size_t step = 1, bool ended = false,
             Http1Parser::Body body = Http1Parser::Body::kExpected) {
  Http1Parser parser(body);
  Answer answer;
  const auto take = [&](const base::Status& status) {
    if (auto head = parser.TakeHead()) {
      answer.status = head->status;
      answer.headers = head->headers;
    }
    if (!status) answer.error = status.error().message;
    return status.has_value();
  };
  while (!bytes.empty()) {
    const auto count = std::min(step, bytes.size());
    if (!take(parser.Feed(bytes.substr(0, count)))) return answer;
    answer.body += parser.TakeBody();
    bytes.remove_prefix(count);
  }
  if (ended && !take(parser.End())) return answer;
  answer.done = parser.done();
  answer.keep_alive = answer.done && parser.keep_alive();
  return answer;
}

TEST(Http1Parser, HowTheBytesArriveMakesNoDifference) {
  constexpr std::string_view kAnswer =
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Empty:\r\nTransfer-Encoding: "
      "chunked\r\n\r\n"
      "5;name=value\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: yes\r\n\r\n";
  for (std::size_t step = 1; step <= kAnswer.size(); ++step) {
    const auto answer = Parse(kAnswer, step);
    ASSERT_FALSE(answer.error) << step << *answer.error;
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "hello world");
    EXPECT_TRUE(answer.done);
    EXPECT_TRUE(answer.keep_alive);
    ASSERT_EQ(answer.headers.size(), 3U);  // trailers are not headers
    EXPECT_EQ(answer.headers[0].name, "content-type");
    EXPECT_EQ(answer.headers[0].value, "text/plain");
    EXPECT_EQ(answer.headers[1].value, "");
  }
}

TEST(Http1Parser, TheBodyEndsWhereTheHeadSays) {
  const auto sized = Parse("HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\none");
  EXPECT_EQ(sized.body, "one");
  EXPECT_TRUE(sized.done && sized.keep_alive);
  EXPECT_FALSE(Parse("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\non").done);
  const auto empty = Parse("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(empty.done && empty.keep_alive);
  // Without a length it ends with the connection.
  constexpr std::string_view kUnsized = "HTTP/1.1 200 OK\r\n\r\nall of it";
  EXPECT_FALSE(Parse(kUnsized).done);
  const auto unsized = Parse(kUnsized, 1, true);
  EXPECT_EQ(unsized.body, "all of it");
  EXPECT_TRUE(unsized.done);
  EXPECT_FALSE(unsized.keep_alive);
}

TEST(Http1Parser, SomeAnswersHaveNoBody) {
  for (const char* status : {"204 No Content", "304 Not Modified"}) {
    const auto answer = Parse("HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 5\r\n\r\n");
    EXPECT_TRUE(answer.done) << status;
  }
  const auto head =
      Parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 1, false, Http1Parser::Body::kNone);
  EXPECT_TRUE(head.done && head.keep_alive);
}

TEST(Http1Parser, InformationalHeadsArePassedOver) {
  const std::string hints = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
  const auto answer = Parse(hints + hints + "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno");
  EXPECT_EQ(answer.status, 404);
  EXPECT_TRUE(answer.headers.size() == 1 && answer.body == "no" && answer.done);
  std::string endless;
  for (int i = 0; i < 100; ++i) endless += hints;
  EXPECT_TRUE(Parse(endless).error);
  EXPECT_TRUE(Parse("HTTP/1.1 101 Switching Protocols\r\n\r\n").error);
}

TEST(Http1Parser, AConnectionIsKeptOnlyIfBothSidesAgree) {
  const auto kept = [](const std::string& head) {
    const auto answer = Parse(head + "\r\nContent-Length: 0\r\n\r\n");
    EXPECT_TRUE(answer.done) << head;
    return answer.keep_alive;
  };
  EXPECT_TRUE(kept("HTTP/1.1 200 OK"));
  EXPECT_FALSE(kept("HTTP/1.1 200 OK\r\nConnection: close"));
  EXPECT_FALSE(kept("HTTP/1.1 200 OK\r\nConnection: x, Close"));
  EXPECT_FALSE(kept("HTTP/1.0 200 OK"));
  EXPECT_TRUE(kept("HTTP/1.0 200 OK\r\nConnection: keep-alive"));
  // What comes behind the answer was not asked for.
  const auto surplus =
      Parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n", 100);
  EXPECT_EQ(surplus.body, "x");
  EXPECT_TRUE(surplus.done);
  EXPECT_FALSE(surplus.keep_alive);
}

TEST(Http1Parser, WhatIsNotHttpIsRefused) {
  for (const char* bytes :
       {"\x16\x03\x01\x02\x01\x01\x01\xFC\x03\x03",  // TLS
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 051 OK\r\n\r\n",
        "HTTP/1.1 000 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nNo colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: no name\r\n\r\n",
        "HTTP/1.1 200 OK\r\nSpace : x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n"}) {
    const auto answer = Parse(bytes, 1000);
    ASSERT_TRUE(answer.error) << bytes;
    EXPECT_NE(answer.error->find("not HTTP/1.1"), std::string::npos);
  }
}

TEST(Http1Parser, AnAnswerThatBreaksOffIsLost) {
  constexpr std::string_view kChunked =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  constexpr std::string_view kSized = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
  for (const auto whole : {kChunked, kSized}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_TRUE(Parse(whole.substr(0, length), 7, true).error) << whole.substr(0, length);
    }
    EXPECT_FALSE(Parse(whole, 7, true).error);
  }
}

TEST(Http1Parser, NothingGrowsWithoutBounds) {
  const std::string megabyte(1U << 20U, 'x');
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_TRUE(Parse(megabyte, 4096).error);
  EXPECT_TRUE(Parse("HTTP/1.1 200 " + megabyte, 4096).error);
  EXPECT_TRUE(Parse("HTTP/1.1 200 OK\r\nA: " + megabyte, 4096).error);
  EXPECT_TRUE(Parse(chunked + "5;" + megabyte, 4096).error);
  EXPECT_TRUE(Parse(chunked + "0\r\nA: " + megabyte, 4096).error);
  std::string headers = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 20000; ++i) headers += "A: b\r\nC: ddddddddddddddddddddd\r\n";
  EXPECT_TRUE(Parse(headers, 4096).error);
}

// Whatever comes, it ends in an answer or an error; the fuzzer looks further.
TEST(Http1Parser, NoiseIsSurvived) {
  constexpr std::string_view kAnswer =
      "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n0\r\nTrailer: yes\r\n\r\n";
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same noise every time
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(kAnswer);
    for (int change = 0; change < 3; ++change) {
      const auto at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 4);
          break;
        default:
          bytes.insert(at, std::string(kAnswer.substr(random() % kAnswer.size(), 4)));
      }
    }
    const auto step = 1 + random() % 20;
    const auto one = Parse(bytes, step, true);
    EXPECT_LE(one.body.size(), bytes.size());
  }
}

}  // namespace
}  // namespace pitcrew::io
