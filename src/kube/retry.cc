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
  const int status = outcome.http_status;
  const std::string& reason = outcome.error.reason;
  const bool asked_to =
      outcome.retry_after && (request.idempotent() ? status >= 500 : status == 503);
  const bool unheard = status == 0 && (reason == "ConnectionLost" ||
                                       (reason == "RequestTimeout" && policy.after_silence));
  const bool harmless = request.idempotent() && (status == 503 || status == 504 || unheard);
  const bool again = (status == 429 && policy.after_too_many) || asked_to || harmless ||
                     (status == 0 && reason == "ConnectionRefused");
  if (!again) return std::nullopt;
  const milliseconds delay = policy.backoff.Delay(attempt, random);
  if (!outcome.retry_after) return delay;
  if (*outcome.retry_after > policy.longest_retry_after) return std::nullopt;
  // Those who were refused together do not come back together.
  const milliseconds asked = *outcome.retry_after;
  return std::max(asked + milliseconds(static_cast<std::int64_t>(
                              static_cast<double>(asked.count()) * policy.backoff.jitter * random)),
                  delay);
}

std::optional<std::chrono::seconds> ParseRetryAfter(std::string_view value) {
  const auto seconds = base::ParseUnsigned(base::Trim(value));
  if (!seconds || *seconds > 86400) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

}  // namespace pitcrew::kube
