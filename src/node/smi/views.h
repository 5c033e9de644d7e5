// What nvidia-smi prints, as text. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/smi/snapshot.h"

namespace pitcrew::node::smi {

// Parts of a mebibyte count as one, as nvidia-smi has it.
[[nodiscard]] constexpr std::uint64_t WholeMib(std::uint64_t bytes) {
  constexpr std::uint64_t kMib = 1ull << 20;
  return (bytes + kMib - 1) / kMib;
}

// The table; `time` stands above it.
[[nodiscard]] std::string RenderTable(const Snapshot& snapshot, std::string_view time);

// -L: one line per GPU, one per MIG device.
[[nodiscard]] std::string RenderList(const Snapshot& snapshot);

// -q: what is known of each GPU as "key : value" lines.
[[nodiscard]] std::string RenderDetails(const Snapshot& snapshot, std::string_view time);

struct CsvFormat {
  bool header = true;
  bool units = true;
};
// "csv", "csv,noheader,nounits"; kInvalid otherwise.
base::Result<CsvFormat> ParseFormat(std::string_view text);

// --query-gpu. kInvalid "UnknownField" names the field.
base::Result<std::string> RenderQuery(const Snapshot& snapshot, std::string_view fields,
                                      const CsvFormat& format, std::string_view time);
// Names for --help-query-gpu.
[[nodiscard]] std::vector<std::string> QueryFields();

}  // namespace pitcrew::node::smi
