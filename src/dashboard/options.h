// The command line of `pitcrew dashboard`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "snapshot/connection.h"

namespace pitcrew::dashboard {

struct Options {
  std::string name_space;  // of the operator; "": found by its policy
  snapshot::Connection connection;
  std::string file;  // --cluster; "": a live cluster
  int port = 0;      // 0: a free one
  bool readings = true;
  // "" for one person on the loopback address. Otherwise where users of the cluster are answered,
  // by HTTPS: ":8443".
  std::string listen;
  // Of that server; without a certificate it makes its own, for these names.
  std::string certificate_file;
  std::string key_file;
  std::vector<std::string> hosts;
};

// None when --help or --version was asked for and printed. kInvalid "BadUsage" otherwise.
base::Result<std::optional<Options>> ReadOptions(int argc, const char* const* argv);

}  // namespace pitcrew::dashboard
