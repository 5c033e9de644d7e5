#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <vector>

#include "base/clock.h"

namespace pitcrew::base {
namespace {

std::atomic<LogLevel> current_level{LogLevel::kInfo};
std::atomic<LogFormat> current_format{LogFormat::kText};

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warn";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void AppendTextValue(std::string& out, std::string_view text) {
  const bool plain = !text.empty() && text.find_first_of(" \"\\=\n\r\t") == std::string_view::npos;
  if (plain) {
    out += text;
  } else {
    AppendQuoted(out, text);
  }
}

void Write(LogLevel level, std::string_view message, const Field* fields, std::size_t count) {
  std::string line = FormatLogLine(current_format.load(std::memory_order_relaxed), level,
                                   FormatRfc3339(WallClock::now(), 3), message, fields, count);
  line += '\n';
  // Standard error may be closed or full; a log line that cannot be written is dropped.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

void WriteWithError(LogLevel level, std::string_view message, const Error& error,
                    std::initializer_list<Field> fields) {
  if (!LogEnabled(level)) return;
  std::vector<Field> all(fields);
  all.emplace_back("reason", error.reason);
  all.emplace_back("error", error.message);
  Write(level, message, all.data(), all.size());
}

}  // namespace

void ConfigureLog(LogSettings settings) {
  current_level.store(settings.level);
  current_format.store(settings.format);
}

bool LogEnabled(LogLevel level) { return level >= current_level.load(std::memory_order_relaxed); }

std::string FormatLogLine(LogFormat format, LogLevel level, std::string_view timestamp,
                          std::string_view message, const Field* fields, std::size_t count) {
  std::string line;
  if (format == LogFormat::kJson) {
    line += "{\"time\":";
    AppendQuoted(line, timestamp);
    line += ",\"level\":";
    AppendQuoted(line, LevelName(level));
    line += ",\"message\":";
    AppendQuoted(line, message);
    for (std::size_t i = 0; i < count; ++i) {
      line += ',';
      AppendQuoted(line, fields[i].key);
      line += ':';
      AppendQuoted(line, fields[i].value);
    }
    line += '}';
    return line;
  }
  line += fmt::format("{} {:<5} {}", timestamp, LevelName(level), message);
  for (std::size_t i = 0; i < count; ++i) {
    line += ' ';
    line += fields[i].key;
    line += '=';
    AppendTextValue(line, fields[i].value);
  }
  return line;
}

void Log(LogLevel level, std::string_view message, std::initializer_list<Field> fields) {
  if (!LogEnabled(level)) return;
  Write(level, message, fields.begin(), fields.size());
}

void LogError(std::string_view message, const Error& error, std::initializer_list<Field> fields) {
  WriteWithError(LogLevel::kError, message, error, fields);
}

void LogWarning(std::string_view message, const Error& error, std::initializer_list<Field> fields) {
  WriteWithError(LogLevel::kWarning, message, error, fields);
}

}  // namespace pitcrew::base
