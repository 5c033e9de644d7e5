// The file in which a change of a node's GPUs keeps what was before: written whole, locked by who
// changes, left to the next process by one that was killed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/result.h"

namespace pitcrew::node::mig {

class JournalFile {
 public:
  // `what` is what it keeps, for messages: "MIG geometry".
  JournalFile(std::filesystem::path file, std::string what)
      : file_(std::move(file)), what_(std::move(what)) {}

  // Keeps others from changing the node while the result lives; the kernel drops it with its
  // process. kConflict "ChangeInProgress".
  [[nodiscard]] base::Result<base::FileDescriptor> Lock() const;

  // nullopt when there is none.
  [[nodiscard]] base::Result<std::optional<std::string>> ReadText() const;
  [[nodiscard]] base::Status WriteText(std::string_view text) const;
  [[nodiscard]] base::Status Remove() const;
  // Whether a change was cut off: a journal lies there.
  [[nodiscard]] base::Result<bool> Exists() const;

  // nullopt when there is none. One that cannot be understood is reported and left out of account:
  // files are written whole, so nothing of ours made it.
  template <class Journal>
  [[nodiscard]] base::Result<std::optional<Journal>> Read(
      base::Result<Journal> (*parse)(std::string_view)) const {
    auto text = ReadText();
    if (!text) return base::Fail(text.error());
    if (!*text) return std::nullopt;
    auto journal = parse(**text);
    if (journal) return *std::move(journal);
    base::LogWarning("the journal of a change is not understood and left out of account",
                     journal.error(), {{"file", file_.string()}});
    return std::nullopt;
  }

 private:
  std::filesystem::path file_;
  std::string what_;
};

}  // namespace pitcrew::node::mig
