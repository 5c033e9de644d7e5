#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"
#include "host/root.h"
#include "node/nfd/sources.h"

namespace pitcrew::node::nfd {
namespace {

constexpr const char* kTrue = "true";
constexpr const char* kFalse = "false";

// A Kubernetes quantity with the largest binary suffix that divides it.
std::string KibibytesAsQuantity(std::uint64_t kibibytes) {
  constexpr std::string_view kSuffixes[] = {"Ki", "Mi", "Gi", "Ti"};
  std::size_t suffix = 0;
  while (kibibytes != 0 && kibibytes % 1024 == 0 && suffix + 1 < std::size(kSuffixes)) {
    kibibytes /= 1024;
    ++suffix;
  }
  return fmt::format("{}{}", kibibytes, kSuffixes[suffix]);
}

base::Result<Attributes> ReadHugePages(const std::filesystem::path& folder) {
  Attributes found = {{"enabled", kFalse}};
  const auto names = host::ListFolder(folder);
  if (!names) {
    if (names.error().code == base::Code::kNotFound) return found;
    return base::Fail(names.error());
  }
  for (const auto& name : *names) {
    constexpr std::string_view kPrefix = "hugepages-";
    if (!name.starts_with(kPrefix) || !name.ends_with("kB")) continue;
    const auto size = base::ParseUnsigned(
        std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - 2));
    if (!size) continue;
    TRY_ASSIGN(const auto count, base::ReadFile(folder / name / "nr_hugepages"));
    found["hugepages-" + KibibytesAsQuantity(*size)] = base::Trim(count);
    if (base::Trim(count) != "0") found["enabled"] = kTrue;
  }
  return found;
}

base::Result<Attributes> ReadSwap(const std::filesystem::path& file) {
  TRY_ASSIGN(const auto text, base::ReadFile(file));
  // The first line is a header.
  return Attributes{{"enabled", base::SplitTrimmed(text, '\n').size() > 1 ? kTrue : kFalse}};
}

base::Result<Attributes> ReadNuma(const std::filesystem::path& folder) {
  TRY_ASSIGN(const auto nodes, host::ListFolder(folder));
  return Attributes{{"is_numa", nodes.size() > 1 ? kTrue : kFalse},
                    {"node_count", fmt::format("{}", nodes.size())}};
}

// A part of the machine that is not there has no feature; one that cannot be read is an error.
base::Status Add(Discovery& found, const char* feature, base::Result<Attributes> read) {
  if (read) {
    found.features.attributes[feature] = *std::move(read);
    return {};
  }
  if (read.error().code == base::Code::kNotFound) return {};
  return base::Fail(std::move(read).error());
}

}  // namespace

base::Result<Discovery> DiscoverMemory(const HostPaths& paths) {
  Discovery found;
  TRY(Add(found, "memory.numa", ReadNuma(paths.sys / "bus/node/devices")));
  TRY(Add(found, "memory.swap", ReadSwap(paths.swaps)));
  TRY(Add(found, "memory.hugepages", ReadHugePages(paths.sys / "kernel/mm/hugepages")));
  const auto is_true = [&](const std::string& feature, const std::string& element) {
    const auto attributes = found.features.attributes.find(feature);
    if (attributes == found.features.attributes.end()) return false;
    const auto value = attributes->second.find(element);
    return value != attributes->second.end() && value->second == kTrue;
  };
  if (is_true("memory.numa", "is_numa")) found.labels["numa"] = kTrue;
  if (is_true("memory.swap", "enabled")) found.labels["swap"] = kTrue;
  return found;
}

}  // namespace pitcrew::node::nfd
