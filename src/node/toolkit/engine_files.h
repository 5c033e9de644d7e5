// Files of a container engine on disk: written as their owner keeps them, and a journal of the
// change under way, so that a toolkit that is killed at any step is made up for by the next one
// (runtimes-and-distributions.md 12 #2, 13 #17, #18; container-toolkit.md 13 row 5).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/toolkit/engine.h"

namespace pitcrew::node::toolkit {

// A file as it was.
struct SavedFile {
  FileContent file;
  mode_t mode = 0;  // of a file that was there; so are the owners
  uid_t owner = 0;
  gid_t group = 0;
};

// Whether the content or the privacy is not as wanted.
bool Differs(const FileContent& wanted, const SavedFile& now);

// Tells a content again without keeping it: it can have passwords.
struct ContentMark {
  std::filesystem::path path;
  bool exists = false;
  std::uint32_t hash = 0;
  std::size_t size = 0;
  bool operator==(const ContentMark&) const = default;
};
ContentMark MarkOf(const FileContent& file);
bool IsMarked(const std::vector<ContentMark>& marks, const FileContent& file);

// A change of the engine's files that is not through.
struct EngineChange {
  std::vector<SavedFile> before;  // what a roll-back puts back
  // What was to be written in their place, by this toolkit or by killed ones before it. Anything
  // else that is there now is somebody's.
  std::vector<ContentMark> ours{};
  std::vector<ContentMark> replaced{};  // what these took the place of
  bool restarting = false;              // the engine may have read the new files
};

class EngineFileStore {
 public:
  // `host_root` is where the node's own root is seen: links with absolute targets mean that one.
  explicit EngineFileStore(std::filesystem::path host_root) : host_root_(std::move(host_root)) {}

  // nullopt for a file that is not there. A link whose target cannot be seen from here is an error
  // and no missing file: kUnsupported "LinkOutOfSight".
  [[nodiscard]] base::Result<std::optional<std::string>> Read(
      const std::filesystem::path& path) const;
  [[nodiscard]] base::Result<SavedFile> Save(const std::filesystem::path& path) const;

  // In one step, behind links, with the mode and the owner that the file had; a new one is 0644. No
  // more than `file` may have of permissions. kConflict "FileChanged" when it is not as
  // it was `before` any more; then it stays.
  [[nodiscard]] base::Status Put(const FileContent& file, const SavedFile& before) const;
  // Over whatever is there.
  [[nodiscard]] base::Status Put(const FileContent& file) const;
  // "FileChanged" when it is neither as it was nor as we wanted it: then somebody else has changed
  // it since, and it stays. Without `ours` it is put back whatever it is now.
  [[nodiscard]] base::Status PutBack(const SavedFile& saved, const FileContent* ours) const;
  // What a process that was killed while it wrote this file has left beside it, by its journal.
  void Tidy(const std::filesystem::path& path, const EngineChange& change) const;

 private:
  [[nodiscard]] base::Result<std::filesystem::path> Resolve(std::filesystem::path path) const;

  std::filesystem::path host_root_;
};

// In `state_folder`, readable by root only: it has the content of files. nullopt: none is under
// way. A journal that cannot be read is an error: it may have what is to be put back.
base::Result<std::optional<EngineChange>> ReadEngineChange(
    const std::filesystem::path& state_folder);
base::Status WriteEngineChange(const std::filesystem::path& state_folder,
                               const EngineChange& change);
base::Status ForgetEngineChange(const std::filesystem::path& state_folder);
// What a killed process has left beside the journal.
void TidyEngineChange(const std::filesystem::path& state_folder);

}  // namespace pitcrew::node::toolkit
