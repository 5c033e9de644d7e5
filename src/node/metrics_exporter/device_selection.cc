#include "node/metrics_exporter/device_selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/strings.h"

namespace pitcrew::node::metrics_exporter {
namespace {

constexpr unsigned kMostIds = 4096;

std::unexpected<base::Error> Wrong(std::string_view flag, std::string_view text,
                                   std::string_view what) {
  return base::Fail(base::Invalid(
      "BadDeviceOption",
      fmt::format("--{}={}: {}; write f, g, i, g:0,2-3 or i:0,2-3", flag, text, what)));
}

}  // namespace

bool DeviceSelection::Takes(unsigned id) const {
  return ids.empty() || std::ranges::binary_search(ids, id);
}

base::Result<DeviceSelection> ParseDeviceSelection(std::string_view text, std::string_view flag) {
  const auto parts = base::Split(text, ':');
  if (parts.size() > 2) return Wrong(flag, text, "more than one colon");
  DeviceSelection selection;
  if (parts[0] == "g") {
    selection.kind = DeviceSelection::Kind::kWhole;
  } else if (parts[0] == "i") {
    selection.kind = DeviceSelection::Kind::kParts;
  } else if (parts[0] != "f") {
    return Wrong(flag, text, fmt::format("\"{}\" is none of f, g, i", parts[0]));
  }
  if (parts.size() == 1) return selection;
  if (selection.kind == DeviceSelection::Kind::kFlexible) {
    return Wrong(flag, text, "f takes no list");
  }
  for (const auto& piece : base::Split(parts[1], ',')) {
    const auto ends = base::Split(piece, '-');
    if (ends.size() > 2) return Wrong(flag, text, fmt::format("\"{}\" is no range", piece));
    const auto first = base::ParseUnsigned(ends.front());
    const auto last = base::ParseUnsigned(ends.back());
    if (!first || !last) return Wrong(flag, text, fmt::format("\"{}\" is no number", piece));
    if (*first > *last || *last >= kMostIds) {
      return Wrong(flag, text, fmt::format("\"{}\" is no range of ids", piece));
    }
    for (auto id = *first; id <= *last; ++id) selection.ids.push_back(static_cast<unsigned>(id));
  }
  std::ranges::sort(selection.ids);
  const auto twice = std::ranges::unique(selection.ids);
  selection.ids.erase(twice.begin(), twice.end());
  return selection;
}

}  // namespace pitcrew::node::metrics_exporter
