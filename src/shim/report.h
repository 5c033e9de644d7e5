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
  // "debug", "warning" and the like: what is less urgent is left out. False for a word that is no
  // level: then info.
  bool SetLevel(std::string_view level);

  void Debug(std::string_view message) const;
  void Warning(std::string_view message) const;
  void Error(const base::Error& error) const;

 private:
  enum class Urgency { kError, kWarning, kInfo, kDebug };
  void Write(Urgency urgency, std::string_view message) const;

  struct File {
    base::FileDescriptor fd;
    bool json = false;
  };
  std::vector<File> files_;
  Urgency least_ = Urgency::kInfo;
};

}  // namespace pitcrew::shim
