// Records of comma-separated values, read as Go's encoding/csv with '#' for comments reads them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::node::metrics_exporter {

struct Cell {
  std::string text;
  std::size_t line = 0;    // from 1
  std::size_t column = 0;  // in bytes, from 1
};
using Record = std::vector<Cell>;

// Blank lines and lines that begin with # are no records. kInvalid "BadCsv" with "line:column:
// ...".
base::Result<std::vector<Record>> ParseCsv(std::string_view text);

}  // namespace pitcrew::node::metrics_exporter
