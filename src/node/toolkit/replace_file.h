// One file in the place of another in one step, with its mode and owner, and only while the other
// is still what it was: a node's files have other writers too.
//
// CRI-O reads every file of its folder, whatever its name, so there is no moment at which a part of
// a file has a name there. The only name that a kill can leave behind is "." NAME ".new", with a
// whole content; RemoveLeftover takes it away.
#pragma once

#include <sys/types.h>

#include <filesystem>
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

void RemoveLeftover(const std::filesystem::path& path);

}  // namespace pitcrew::node::toolkit
