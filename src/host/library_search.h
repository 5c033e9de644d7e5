// Where the libraries below a driver root are (container-toolkit.md 6.3).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/root.h"

namespace pitcrew::host {

// Looks in the usual folders, and where these have nothing, at what the loader's cache of the root
// names: some distributions and drivers have folders of their own. Not for several threads.
class LibrarySearch {
 public:
  // `folders` inside the root take the place of the usual ones and of the cache; none: these.
  explicit LibrarySearch(Root root, std::vector<std::string> folders = {});

  [[nodiscard]] const Root& root() const { return root_; }
  // In the order of search.
  [[nodiscard]] const std::vector<std::string>& folders() const { return folders_; }

  // All files whose names fit the pattern, links followed inside the root, each once, in order of
  // folders, then names.
  base::Result<std::vector<std::filesystem::path>> Find(const std::string& pattern);
  // Only by the cache, 64-bit libraries: a file is found by its own name and by that of every link
  // to it. What the pattern begins with, up to ".so", every name of a library begins with.
  std::vector<std::filesystem::path> FindInCache(const std::string& pattern);

 private:
  const std::vector<std::string>& Cache();

  Root root_;
  std::vector<std::string> folders_;
  bool uses_cache_;
  std::optional<std::vector<std::string>> cache_;  // paths inside, as the cache names them
};

// FindLibrary, and where no folder has it what the loader's cache of the root names: drivers are
// installed to other folders too (/usr/lib without a triplet, /usr/local/nvidia/lib64).
base::Result<std::filesystem::path> FindDriverLibrary(const Root& root, std::string_view file_name);

}  // namespace pitcrew::host
