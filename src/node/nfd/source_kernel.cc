#include <array>
#include <cctype>

#include "base/ascii.h"
#include "base/file.h"
#include "base/strings.h"
#include "host/kernel.h"
#include "host/root.h"
#include "node/nfd/sources.h"

namespace pitcrew::node::nfd {
namespace {

using base::IsDigit;

// Takes the digits at the front off `text`.
std::string TakeNumber(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && IsDigit(text[length])) ++length;
  std::string number(text.substr(0, length));
  text.remove_prefix(length);
  return number;
}

// selinuxfs tells with its first byte whether the policy is enforced.
base::Result<Attributes> ReadSelinux(const HostPaths& paths) {
  TRY_ASSIGN(const bool has_filesystems, host::IsDirectory(paths.sys / "fs"));
  if (!has_filesystems) {
    return base::Fail(base::NotFound("NoFilesystemFolder", "the node's /sys/fs is not mounted"));
  }
  const auto enforce = base::ReadFile(paths.sys / "fs/selinux/enforce");
  if (!enforce && enforce.error().code != base::Code::kNotFound) return base::Fail(enforce.error());
  const bool enabled = enforce && enforce->starts_with('1');
  return Attributes{{"enabled", enabled ? "true" : "false"}};
}

}  // namespace

Attributes ParseKernelVersion(std::string_view release) {
  std::string full;
  for (const char c : base::Trim(release)) {
    const bool allowed =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    full.push_back(allowed ? c : '_');
  }
  const auto is_edge = [](char c) { return c == '-' || c == '_' || c == '.'; };
  while (!full.empty() && is_edge(full.back())) full.pop_back();
  while (!full.empty() && is_edge(full.front())) full.erase(full.begin());

  Attributes version = {{"full", full}};
  // Digits, up to two more numbers after dots, and anything after "-".
  std::string_view rest = full;
  std::array<std::string, 3> numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) {
      if (rest.size() < 2 || rest[0] != '.' || !IsDigit(rest[1])) break;
      rest.remove_prefix(1);
    }
    numbers[i] = TakeNumber(rest);
  }
  if (numbers[0].empty() || (!rest.empty() && (rest.front() != '-' || rest.size() < 2))) {
    return version;
  }
  version["major"] = numbers[0];
  version["minor"] = numbers[1];
  version["revision"] = numbers[2];
  return version;
}

base::Result<Discovery> DiscoverKernel(const HostPaths& paths) {
  TRY_ASSIGN(const auto release, host::ReadKernelRelease(paths.proc));
  const auto modules = host::ReadLoadedModules(paths.proc);
  // A kernel without loadable modules has no such file, though it told its release.
  if (!modules && modules.error().code != base::Code::kNotFound) return base::Fail(modules.error());
  Discovery found;
  const auto version = ParseKernelVersion(release);
  found.features.attributes["kernel.version"] = version;
  for (const auto& [name, value] : version) found.labels["version." + name] = value;
  auto& loaded = found.features.flags["kernel.loadedmodule"];
  if (modules) loaded.insert(modules->begin(), modules->end());
  const auto selinux = ReadSelinux(paths);
  if (selinux) {
    found.features.attributes["kernel.selinux"] = *selinux;
    if (selinux->at("enabled") == "true") found.labels["selinux.enabled"] = "true";
  } else if (selinux.error().code != base::Code::kNotFound) {
    return base::Fail(selinux.error());
  }
  return found;
}

}  // namespace pitcrew::node::nfd
