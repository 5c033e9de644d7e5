// One file in the place of another in one step, with its mode and owner, and only while the other
// is still what it was: a node's files have other writers too.
//
// CRI-O reads every file of its folder, whatever its name, so there is no moment at which a part of
// a file has a name there, where the file system knows files without a name (else a part has "."
// NAME ".part"). A kill can leave "." NAME ".new" behind, with a whole content: ours, what was
// there before, or, when somebody else wrote in the same moment, theirs. Tidy tells them apart.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace pitcrew::node::toolkit {

struct FileState {
  std::optional<std::string> content;  // nullopt: there is no file
  mode_t mode = 0644;
  uid_t owner = 0;
  gid_t group = 0;
  bool operator==(const FileState&) const = default;
};

// `path` itself: links are not followed.
base::Result<FileState> ReadFileState(const std::filesystem::path& path);

// kConflict "FileChanged" when the content is not `expected` any more; then it stays. Folders are
// made.
base::Status ReplaceFile(const std::filesystem::path& path, const FileState& wanted,
                         const std::optional<std::string>& expected);

// Which contents of a file a toolkit knows; nullopt is that of no file.
struct KnownContents {
  using Knows = std::function<bool(const std::optional<std::string>&)>;
  Knows may_go;   // nobody misses it: what we write, and what it takes the place of
  Knows is_ours;  // of these, what we write
};

// Takes away what a killed process has left beside this file. What somebody else wrote in that very
// moment goes back to its place; where something is there that is not ours either, it is kept as
// "." NAME ".kept", and the log tells.
void Tidy(const std::filesystem::path& path, const KnownContents& known);

// The same of a file that nobody else writes.
void RemoveLeftover(const std::filesystem::path& path);

}  // namespace pitcrew::node::toolkit
