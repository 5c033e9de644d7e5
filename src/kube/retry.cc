#include "kube/retry.h"

#include <algorithm>

#include "base/strings.h"

namespace pitcrew::kube {

using std::chrono::milliseconds;

std::chrono::milliseconds BackoffPolicy::Delay(int failures, double random) const {
  // More than 30 doublings are beyond any cap.
  const auto doubled = base * (std::int64_t{1} << std::clamp(failures - 1, 0, 30));
  const auto capped = std::min(doubled, cap);
  return capped + milliseconds(static_cast<std::int64_t>(static_cast<double>(capped.count()) *
                                                         jitter * random));
}

std::optional<std::chrono::milliseconds> NextTry(const RetryPolicy& policy, const Request& request,
                                                 const Outcome& outcome, int attempt,
                                                 double random) {
  if (attempt >= policy.attempts) return std::nullopt;
  const bool server_error = outcome.http_status >= 500;
  const bool again =
      outcome.http_status == 429 || (server_error && outcome.retry_after) ||
      ((outcome.http_status == 503 || outcome.http_status == 504) && request.idempotent()) ||
      (outcome.http_status == 0 && outcome.error.reason == "ConnectionRefused") ||
      (outcome.http_status == 0 && outcome.error.reason == "ConnectionLost" &&
       request.idempotent());
  if (!again) return std::nullopt;
  const milliseconds delay = policy.backoff.Delay(attempt, random);
  if (!outcome.retry_after) return delay;
  if (*outcome.retry_after > policy.longest_retry_after) return std::nullopt;
  return std::max<milliseconds>(*outcome.retry_after, delay);
}

std::optional<std::chrono::seconds> ParseRetryAfter(std::string_view value) {
  const auto seconds = base::ParseUnsigned(base::Trim(value));
  if (!seconds || *seconds > 86400) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

}  // namespace pitcrew::kube
