// Where the shim says what it does: the engine's log file (whose last error becomes the pod's
// event), the configured debug file, and for errors standard error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_descriptor.h"

namespace pitcrew::shim {

// With control characters as \x1b: what an image or a pod has chosen forges no line of a log and
// moves no cursor.
std::string OnOneLine(std::string_view text);

class Report {
 public:
  // A file that cannot be opened is left out: no container fails because of a log.
  // Empty and /dev/null mean none.
  void AddFile(const std::string& path, bool json);
  void set_debug(bool debug) { debug_ = debug; }

  void Debug(std::string_view message) const;
  void Warning(std::string_view message) const;
  void Error(const base::Error& error) const;

 private:
  void Write(std::string_view level, std::string_view message) const;

  struct File {
    base::FileDescriptor fd;
    bool json = false;
  };
  std::vector<File> files_;
  bool debug_ = false;
};

}  // namespace pitcrew::shim
