#include "host/kernel.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::host {
namespace {

// As sysfs calls it.
std::filesystem::path ModuleFolder(std::string_view name, const std::filesystem::path& sys) {
  return sys / "module" / base::ReplaceAll(std::string(name), "-", "_");
}

}  // namespace

base::Result<std::string> ReadKernelRelease(const std::filesystem::path& proc) {
  TRY_ASSIGN(const std::string text, base::ReadFile(proc / "sys/kernel/osrelease"));
  return std::string(base::Trim(text));
}

base::Result<std::vector<std::string>> ReadLoadedModules(const std::filesystem::path& proc) {
  TRY_ASSIGN(const std::string text, base::ReadFile(proc / "modules"));
  std::vector<std::string> names;
  for (const auto& line : base::Split(text, '\n')) {
    const auto words = base::SplitTrimmed(line, ' ');
    if (!words.empty()) names.push_back(words.front());
  }
  return names;
}

base::Observed<std::uint32_t> ReadModuleReferences(std::string_view name,
                                                   const std::filesystem::path& sys) {
  const auto file = ModuleFolder(name, sys) / "refcnt";
  auto text = base::ReadFile(file);
  if (!text) return base::Observed<std::uint32_t>::From(base::Fail(std::move(text).error()));
  const auto count = base::ParseUnsigned(base::Trim(*text));
  if (!count) {
    return base::Observed<std::uint32_t>::Unknown(base::Invalid(
        "MalformedSysfsAttribute",
        fmt::format("{} holds \"{}\", which is not a number", file.string(), base::Trim(*text))));
  }
  return base::Observed<std::uint32_t>::Present(static_cast<std::uint32_t>(*count));
}

base::Observed<std::uint64_t> ReadModuleInstance(std::string_view name,
                                                 const std::filesystem::path& sys) {
  using Instance = base::Observed<std::uint64_t>;
  const auto folder = ModuleFolder(name, sys);
  struct stat info{};
  if (::stat(folder.c_str(), &info) == 0) return Instance::Present(info.st_ino);
  return Instance::From(base::Fail(base::FromErrno(errno, "look at " + folder.string())));
}

std::map<std::string, std::uint32_t> ParseCharacterMajors(std::string_view text) {
  std::map<std::string, std::uint32_t> majors;
  bool characters = false;
  for (const auto& line : base::Split(text, '\n')) {
    const auto trimmed = base::Trim(line);
    if (trimmed.ends_with(':')) {
      characters = trimmed == "Character devices:";
      continue;
    }
    const auto words = base::SplitTrimmed(trimmed, ' ');
    if (!characters || words.size() != 2) continue;
    const auto number = base::ParseUnsigned(words[0]);
    if (number) majors.emplace(words[1], static_cast<std::uint32_t>(*number));
  }
  return majors;
}

base::Result<std::map<std::string, std::uint32_t>> ReadCharacterMajors(
    const std::filesystem::path& proc) {
  TRY_ASSIGN(const std::string text, base::ReadFile(proc / "devices"));
  return ParseCharacterMajors(text);
}

}  // namespace pitcrew::host
