// The command line with which a container engine calls an OCI runtime (container-toolkit.md 7.1).
// Everything is passed on as it is; these are the parts that the shim itself must understand. Pure.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::shim {

struct Arguments {
  bool is_create = false;
  bool wants_version = false;
  bool debug = false;
  std::filesystem::path bundle;  // empty: the current folder
  std::string log_file;
  bool json_log = false;
};

// `arguments` without argv[0]. kInvalid when a bundle flag at the end of a create command has no
// value.
base::Result<Arguments> ParseArguments(const std::vector<std::string_view>& arguments);

}  // namespace pitcrew::shim
