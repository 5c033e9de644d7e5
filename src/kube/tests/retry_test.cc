#include "kube/retry.h"

#include <gtest/gtest.h>

#include "kube/informer.h"

namespace pitcrew::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Request Get() { return GetRequest(kPods, {.namespace_name = "a", .name = "b"}); }
Request Post() { return *CreateRequest(kPods, {{"metadata", {{"name", "b"}}}}, {}); }

std::optional<milliseconds> Next(const Request& request, const Outcome& outcome, int attempt = 1) {
  RetryPolicy policy;
  policy.backoff.jitter = 0;
  return NextTry(policy, request, outcome, attempt, 0.5);
}
Outcome Status(int status, std::optional<seconds> after = std::nullopt) {
  return {.http_status = status, .retry_after = after, .error = {}};
}
Outcome Broken(const std::string& reason) {
  return {.http_status = 0, .retry_after = {}, .error = base::Unavailable(reason, "")};
}

// operator-behaviour.md: failures 100 ms doubling to 3 s.
TEST(Backoff, DoublesToItsCap) {
  const BackoffPolicy policy;
  EXPECT_EQ(policy.Delay(1), milliseconds(100));
  EXPECT_EQ(policy.Delay(2), milliseconds(200));
  EXPECT_EQ(policy.Delay(5), milliseconds(1600));
  EXPECT_EQ(policy.Delay(6), milliseconds(3000));
  EXPECT_EQ(policy.Delay(1000000), milliseconds(3000));
}

TEST(Backoff, JitterOnlyLengthens) {
  const BackoffPolicy policy{.jitter = 0.5};
  EXPECT_EQ(policy.Delay(1, 0.0), milliseconds(100));
  EXPECT_EQ(policy.Delay(1, 0.5), milliseconds(125));
}

// client-go's reflector: 800 ms doubling to 30 s, and up to as much again by chance.
TEST(Backoff, TheWatchersOfAFleetComeBackSpreadOut) {
  const BackoffPolicy policy = InformerOptions{}.backoff;
  EXPECT_EQ(policy.Delay(1, 0.0), milliseconds(800));
  EXPECT_EQ(policy.Delay(1, 0.5), milliseconds(1200));
  EXPECT_EQ(policy.Delay(100, 0.0), milliseconds(30000));
  EXPECT_EQ(policy.Delay(100, 0.5), milliseconds(45000));
}

TEST(Retry, TooManyRequestsWaitsAsLongAsAsked) {
  EXPECT_EQ(Next(Post(), Status(429, seconds(2))), milliseconds(2000));
  EXPECT_EQ(Next(Post(), Status(429)), milliseconds(200));
  // Never sooner than the back-off.
  EXPECT_EQ(Next(Post(), Status(429, seconds(0)), 3), milliseconds(800));
  EXPECT_EQ(Next(Post(), Status(429, seconds(3600))), std::nullopt);
}

TEST(Retry, ThoseWhoWereRefusedTogetherDoNotComeBackTogether) {
  const RetryPolicy policy;
  const Outcome refused = Status(429, seconds(10));
  EXPECT_EQ(NextTry(policy, Get(), refused, 1, 0.0), milliseconds(10000));
  EXPECT_EQ(NextTry(policy, Get(), refused, 1, 0.5), milliseconds(11000));
}

TEST(Retry, ServerErrorsOnlyWhereARepetitionIsHarmless) {
  EXPECT_TRUE(Next(Get(), Status(503)));
  EXPECT_TRUE(Next(Get(), Status(504)));
  EXPECT_FALSE(Next(Post(), Status(503)));
  EXPECT_TRUE(Next(Post(), Status(503, seconds(1))));
  EXPECT_FALSE(Next(Get(), Status(500)));
  EXPECT_TRUE(Next(Get(), Status(500, seconds(1))));
}

// The object may be there already: kube-apiserver answers 504 with Retry-After when it has stopped
// to wait for etcd.
TEST(Retry, ACreationIsNotRepeatedAfterAnErrorThatMayHaveComeAfterIt) {
  for (const int status : {500, 502, 504}) {
    EXPECT_FALSE(Next(Post(), Status(status, seconds(1)))) << status;
  }
}

// An eviction of one uid; kube-apiserver answers it 504 with Retry-After where other evictions kept
// it from writing the budget.
TEST(Retry, APostThatIsHarmlessTwiceIsRepeated) {
  Request eviction = Post();
  eviction.repeatable = true;
  EXPECT_EQ(Next(eviction, Status(504, seconds(10))), milliseconds(10000));
  EXPECT_TRUE(Next(eviction, Broken("ConnectionLost")));
  EXPECT_FALSE(Next(eviction, Status(500)));
}

TEST(Retry, WhoWantsToKnowOfTooManyIsTold) {
  const RetryPolicy policy{.after_too_many = false};
  EXPECT_FALSE(NextTry(policy, Post(), Status(429, seconds(2)), 1, 0.5));
  EXPECT_TRUE(NextTry(policy, Get(), Status(503), 1, 0.5));
}

TEST(Retry, NoAnswerInTimeIsFinalUnlessSaidOtherwise) {
  const Outcome silence{.error = {base::Code::kTimeout, "RequestTimeout", ""}};
  const RetryPolicy policy{.after_silence = true};
  EXPECT_FALSE(Next(Get(), silence));
  EXPECT_TRUE(NextTry(policy, Get(), silence, 1, 0.5));
  EXPECT_FALSE(NextTry(policy, Post(), silence, 1, 0.5)) << "it may have made the object";
  EXPECT_FALSE(NextTry(policy, Get(), silence, policy.attempts, 0.5));
}

TEST(Retry, RefusedConnectionsSentNothing) {
  EXPECT_TRUE(Next(Post(), Broken("ConnectionRefused")));
  EXPECT_FALSE(Next(Post(), Broken("ConnectionLost")));
  EXPECT_TRUE(Next(Get(), Broken("ConnectionLost")));
  EXPECT_FALSE(Next(Get(), Broken("TlsFailed")));
  const ObjectKey key{.namespace_name = "a", .name = "b"};
  const auto patch = [&](PatchType type) { return PatchRequest(kPods, key, type, {}, {}); };
  EXPECT_FALSE(Next(patch(PatchType::kJson), Broken("ConnectionLost")));
  EXPECT_TRUE(Next(patch(PatchType::kMerge), Broken("ConnectionLost")));
}

TEST(Retry, AnswersAreFinal) {
  for (const int status : {400, 401, 403, 404, 409, 410, 422}) {
    EXPECT_FALSE(Next(Get(), Status(status))) << status;
  }
}

TEST(Retry, EndsAfterItsAttempts) {
  EXPECT_TRUE(Next(Get(), Status(503), 5));
  EXPECT_FALSE(Next(Get(), Status(503), 6));
}

TEST(Retry, ReadsRetryAfter) {
  EXPECT_EQ(ParseRetryAfter(" 12 "), seconds(12));
  EXPECT_EQ(ParseRetryAfter("Wed, 21 Oct 2026 07:28:00 GMT"), std::nullopt);
  EXPECT_EQ(ParseRetryAfter("-1"), std::nullopt);
}

}  // namespace
}  // namespace pitcrew::kube
