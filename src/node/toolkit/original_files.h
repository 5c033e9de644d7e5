// The engine's files as they were before the toolkit came, so that it leaves them so: comments,
// order and spaces included, the default runtime, a file that was not there.
//
// Kept on disk before the first change is what the change takes out, not the file: a configuration
// can have passwords, which need no second place. Whoever changes a file meanwhile owns it: then it
// is only cleaned (PlanCleanup).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/toolkit/engine_files.h"

namespace pitcrew::node::toolkit {

// From a content of ours back to the original.
struct WayBack {
  std::uint32_t ours = 0;  // hash of our content
  std::size_t size = 0;    // of our content
  std::size_t begin = 0;   // where ours begins to differ from the original
  std::size_t end = 0;     // as many bytes at the end are the same
  std::string taken;       // what the original has between
  bool operator==(const WayBack&) const = default;
};

struct OriginalFile {
  std::filesystem::path path;
  bool exists = false;
  mode_t mode = 0;  // of a file that was there; so are the owners
  uid_t owner = 0;
  gid_t group = 0;
  std::vector<WayBack> ways;  // from each content that may be there: the one now, and the next
  bool operator==(const OriginalFile&) const = default;
};

WayBack FindWayBack(const std::string& ours, const std::string& original);
// The file as it was, when `now` is a content of ours; nullopt when somebody has changed it.
std::optional<SavedFile> GoBack(const OriginalFile& original, const std::string& now);

// What is to be known once `wanted` takes the place of `now`. `cleaned` is `now` without anything
// of ours: equal to it, the file is an original.
std::vector<OriginalFile> NoteOriginals(const std::vector<OriginalFile>& known,
                                        const std::vector<SavedFile>& now,
                                        const std::vector<FileContent>& cleaned,
                                        const std::vector<FileContent>& wanted);

// Empty without a file.
base::Result<std::vector<OriginalFile>> ReadOriginals(const std::filesystem::path& file);
// Readable by root only. None: the file goes.
base::Status WriteOriginals(const std::filesystem::path& file,
                            const std::vector<OriginalFile>& originals);

}  // namespace pitcrew::node::toolkit
