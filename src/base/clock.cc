#include "base/clock.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>

#include "base/strings.h"

namespace pitcrew::base {
namespace {

Error BadTime(std::string_view text) {
  return Invalid("InvalidTime", fmt::format("\"{}\" is not a time in RFC 3339 form", text));
}

Error BadDuration(std::string_view text) {
  return Invalid(
      "InvalidDuration",
      fmt::format("\"{}\" is not a duration; write for example 300ms, 5s or 1h30m", text));
}

}  // namespace

std::string FormatRfc3339(WallClock::time_point time, int fraction_digits) {
  constexpr std::int64_t kNanosOfASecond = 1'000'000'000;
  const std::int64_t since_epoch = std::chrono::nanoseconds(time.time_since_epoch()).count();
  // Not by std::chrono::floor: the second in which the clock's first moment lies begins before it.
  std::time_t raw = since_epoch / kNanosOfASecond;
  std::int64_t nanos = since_epoch % kNanosOfASecond;
  if (nanos < 0) {
    nanos += kNanosOfASecond;
    --raw;
  }
  std::tm parts{};
  ::gmtime_r(&raw, &parts);
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                  parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  if (fraction_digits == 3) text += fmt::format(".{:03}", nanos / 1'000'000);
  if (fraction_digits == 6) text += fmt::format(".{:06}", nanos / 1000);
  return text + "Z";
}

Result<WallClock::time_point> ParseRfc3339(std::string_view text) {
  const std::string copy(text);
  std::tm parts{};
  const char* rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return Fail(BadTime(text));
  std::int64_t nanos = 0;
  if (*rest == '.') {
    std::int64_t scale = 100'000'000;
    ++rest;
    if (*rest < '0' || *rest > '9') return Fail(BadTime(text));
    for (; *rest >= '0' && *rest <= '9'; ++rest) {
      nanos += (*rest - '0') * scale;
      scale /= 10;
    }
  }
  std::int64_t offset_seconds = 0;
  const std::string_view zone(rest);
  if (zone != "Z" && zone != "z") {
    if (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':') {
      return Fail(BadTime(text));
    }
    const auto hours = ParseUnsigned(zone.substr(1, 2));
    const auto minutes = ParseUnsigned(zone.substr(4, 2));
    if (!hours || !minutes) return Fail(BadTime(text));
    offset_seconds = static_cast<std::int64_t>(*hours * 3600 + *minutes * 60);
    if (zone[0] == '-') offset_seconds = -offset_seconds;
  }
  const std::int64_t seconds = ::timegm(&parts) - offset_seconds;
  // "Never" is often written as the year 9999; the clock counts nanoseconds and ends in 2262.
  constexpr auto kLast =
      std::chrono::duration_cast<std::chrono::seconds>(WallClock::duration::max()).count();
  if (seconds >= kLast) return WallClock::time_point::max();
  if (seconds <= -kLast) return WallClock::time_point::min();
  return WallClock::time_point(std::chrono::duration_cast<WallClock::duration>(
      std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanos)));
}

Result<std::chrono::nanoseconds> ParseGoDuration(std::string_view text) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest == "0") return std::chrono::nanoseconds(0);
  if (rest.empty()) return Fail(BadDuration(text));
  double total = 0;
  while (!rest.empty()) {
    const auto digits = rest.find_first_not_of("0123456789.");
    if (digits == 0 || digits == std::string_view::npos) return Fail(BadDuration(text));
    const auto number = ParseDouble(rest.substr(0, digits));
    if (!number) return Fail(BadDuration(text));
    rest.remove_prefix(digits);
    const auto unit_end = rest.find_first_of("0123456789.");
    const std::string_view unit = rest.substr(0, unit_end);
    double scale = 0;
    if (unit == "ns") scale = 1;
    if (unit == "us" || unit == "µs" || unit == "μs") scale = 1e3;
    if (unit == "ms") scale = 1e6;
    if (unit == "s") scale = 1e9;
    if (unit == "m") scale = 60e9;
    if (unit == "h") scale = 3600e9;
    if (scale == 0) return Fail(BadDuration(text));
    total += *number * scale;
    rest.remove_prefix(unit.size());
  }
  if (total >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) {
    return Fail(BadDuration(text));
  }
  const auto nanos = static_cast<std::int64_t>(std::llround(total));
  return std::chrono::nanoseconds(negative ? -nanos : nanos);
}

}  // namespace pitcrew::base
