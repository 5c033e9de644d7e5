// The command lines of `pitcrew status` and `pitcrew doctor`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "snapshot/connection.h"

namespace pitcrew::doctor {

enum class Format { kTable, kWide, kJson, kYaml };

struct Options {
  std::string name_space;  // of the operator; "": found by its pods or policy
  snapshot::Connection connection;
  std::string file;  // --cluster; "": a live cluster
  Format format = Format::kTable;
  bool watch = false;
  bool all = false;                 // name every node, however many there are
  std::vector<std::string> wanted;  // nodes and pods (namespace/name), of doctor
};

enum class Command { kStatus, kDoctor };

// None when --help or --version was asked for and printed. kInvalid "BadUsage" otherwise.
base::Result<std::optional<Options>> ReadOptions(Command command, int argc,
                                                 const char* const* argv);

}  // namespace pitcrew::doctor
