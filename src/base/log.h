// Structured log lines on standard error: logfmt-like text for people, JSON for machines.
// One line is one write(2), so lines of several threads do not mix.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/result.h"

namespace pitcrew::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// One key with its value, already as text.
struct Field {
  std::string_view key;
  std::string value;

  template <class T>
  Field(std::string_view k, const T& v) : key(k), value(fmt::format("{}", v)) {}
};

// Process-wide settings, made once by main before threads start.
struct LogSettings {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};
void ConfigureLog(LogSettings settings);
bool LogEnabled(LogLevel level);

void Log(LogLevel level, std::string_view message, std::initializer_list<Field> fields = {});
inline void LogDebug(std::string_view message, std::initializer_list<Field> fields = {}) {
  Log(LogLevel::kDebug, message, fields);
}
inline void LogInfo(std::string_view message, std::initializer_list<Field> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(std::string_view message, std::initializer_list<Field> fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(std::string_view message, std::initializer_list<Field> fields = {}) {
  Log(LogLevel::kError, message, fields);
}
// With the error's reason and message as fields.
void LogError(std::string_view message, const Error& error,
              std::initializer_list<Field> fields = {});
void LogWarning(std::string_view message, const Error& error,
                std::initializer_list<Field> fields = {});

// The line without its newline, for tests. `timestamp` is RFC 3339 in UTC.
std::string FormatLogLine(LogFormat format, LogLevel level, std::string_view timestamp,
                          std::string_view message, const Field* fields, std::size_t count);

}  // namespace pitcrew::base
