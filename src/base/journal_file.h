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

namespace pitcrew::base {

class JournalFile {
 public:
  // `what` is what it keeps, for messages: "MIG geometry".
  JournalFile(std::filesystem::path file, std::string what)
      : file_(std::move(file)), what_(std::move(what)) {}

  // Keeps others from changing the node while the result lives; the kernel drops it with its
  // process. kConflict "ChangeInProgress".
  [[nodiscard]] Result<FileDescriptor> Lock() const;

  // nullopt when there is none.
  [[nodiscard]] Result<std::optional<std::string>> ReadText() const;
  [[nodiscard]] Status WriteText(std::string_view text) const;
  [[nodiscard]] Status Remove() const;
  // Whether a change was cut off: a journal lies there.
  [[nodiscard]] Result<bool> Exists() const;

  // nullopt when there is none. One that cannot be understood is reported and left out of account:
  // files are written whole, so nothing of ours made it.
  template <class Journal>
  [[nodiscard]] Result<std::optional<Journal>> Read(
      Result<Journal> (*parse)(std::string_view)) const {
    auto text = ReadText();
    if (!text) return Fail(text.error());
    if (!*text) return std::nullopt;
    auto journal = parse(**text);
    if (journal) return *std::move(journal);
    LogWarning("the journal of a change is not understood and left out of account", journal.error(),
               {{"file", file_.string()}});
    return std::nullopt;
  }

 private:
  std::filesystem::path file_;
  std::string what_;
};

}  // namespace pitcrew::base
