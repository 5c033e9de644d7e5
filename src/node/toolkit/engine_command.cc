#include "node/toolkit/engine_command.h"

#include <charconv>
#include <utility>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::node::toolkit {
namespace {

std::string ReadOf(const std::filesystem::path& proc, pid_t pid, const char* file) {
  return base::ReadFile(proc / std::to_string(pid) / file).value_or("");
}

}  // namespace

std::vector<std::string> CommandLineOf(const std::filesystem::path& proc, pid_t pid) {
  std::string text = ReadOf(proc, pid, "cmdline");
  if (text.empty()) return {};
  if (text.back() == '\0') text.pop_back();
  return base::Split(text, '\0');
}

pid_t ParentOf(const std::filesystem::path& proc, pid_t pid) {
  for (const auto& line : base::Split(ReadOf(proc, pid, "status"), '\n')) {
    if (!line.starts_with("PPid:")) continue;
    const auto digits = base::Trim(std::string_view(line).substr(5));
    pid_t parent = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), parent);
    return parent;
  }
  return 0;
}

std::string UnitOf(const std::filesystem::path& proc, pid_t pid) {
  // "0::/system.slice/k3s.service/x": a service can have groups of its own below it, and a whole
  // node can run in a service of another one.
  std::string unit;
  for (const auto& line : base::Split(ReadOf(proc, pid, "cgroup"), '\n')) {
    for (auto& part : base::Split(line, '/')) {
      if (part.ends_with(".service")) unit = std::move(part);
    }
    if (!unit.empty()) break;
  }
  return unit;
}

std::string OptionOf(const std::vector<std::string>& words,
                     std::initializer_list<std::string_view> names) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    for (const auto name : names) {
      if (words[i] == name && i + 1 < words.size()) return words[i + 1];
      if (words[i].starts_with(std::string(name) + "=")) return words[i].substr(name.size() + 1);
    }
  }
  return {};
}

}  // namespace pitcrew::node::toolkit
