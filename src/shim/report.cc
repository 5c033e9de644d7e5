#include "shim/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "codec/json.h"

namespace pitcrew::shim {
namespace {

std::string Now() {
  std::timespec now{};
  std::tm parts{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::gmtime_r(&now.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

void WriteLine(int fd, const std::string& line) {
  [[maybe_unused]] const auto written = ::write(fd, line.data(), line.size());
}

}  // namespace

std::string OnOneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return line;
}

void Report::AddFile(const std::string& path, bool json) {
  if (path.empty() || path == "/dev/null") return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  base::FileDescriptor fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (fd.valid()) files_.push_back({std::move(fd), json});
}

bool Report::SetLevel(std::string_view level) {
  // logrus' levels; what has no level of its own here counts as its neighbour.
  static constexpr std::pair<std::string_view, Urgency> kLevels[] = {
      {"panic", Urgency::kError},  {"fatal", Urgency::kError},     {"error", Urgency::kError},
      {"warn", Urgency::kWarning}, {"warning", Urgency::kWarning}, {"info", Urgency::kInfo},
      {"debug", Urgency::kDebug},  {"trace", Urgency::kDebug}};
  using Level = std::pair<std::string_view, Urgency>;
  const auto* const found = std::ranges::find(kLevels, base::ToLower(level), &Level::first);
  const bool known = found != std::end(kLevels);
  least_ = known ? found->second : Urgency::kInfo;
  return known;
}

void Report::Debug(std::string_view message) const { Write(Urgency::kDebug, message); }

void Report::Warning(std::string_view message) const { Write(Urgency::kWarning, message); }

void Report::Error(const base::Error& error) const {
  Write(Urgency::kError, error.ToString());
  WriteLine(STDERR_FILENO,
            fmt::format("nvidia-container-runtime: {}\n", OnOneLine(error.ToString())));
}

void Report::Write(Urgency urgency, std::string_view message) const {
  static constexpr std::string_view kNames[] = {"error", "warning", "info", "debug"};
  if (urgency > least_) return;
  const auto level = kNames[static_cast<std::size_t>(urgency)];
  if (files_.empty()) return;
  // The names that runc's log has: the engine looks for level and msg.
  const codec::Json quoted = std::string(message);
  const std::string text = codec::ToJsonText(quoted);
  const std::string now = Now();
  for (const auto& file : files_) {
    WriteLine(file.fd.get(), file.json
                                 ? fmt::format("{{\"level\":\"{}\",\"msg\":{},\"time\":\"{}\"}}\n",
                                               level, text, now)
                                 : fmt::format("time=\"{}\" level={} msg={}\n", now, level, text));
  }
}

}  // namespace pitcrew::shim
