// The libraries of one folder of a container, as ldconfig files them (glibc: elf/ldconfig.c,
// search_dir).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/elf.h"
#include "base/ld_cache.h"
#include "base/result.h"
#include "shim/container_root.h"

namespace pitcrew::shim {

struct FolderLibrary {
  std::string name;  // SONAME, or a development link's own name
  std::string file;  // the newest in the folder that has it
  bool is_link = false;
  std::int32_t flags = 0;
};

// Which of a container's paths lead to the same folder; each is looked up once.
class FolderPlaces {
 public:
  explicit FolderPlaces(const ContainerRoot& root) : root_(root) {}
  // The same for all paths of one folder, as ldconfig sees it (by device and inode); empty for one
  // that leads to none. The result stays where it is.
  const std::string& Of(std::string_view folder);

 private:
  const ContainerRoot& root_;
  std::map<std::string, std::string, std::less<>> places_;
};

// What the image's own cache says of one folder. A file of which it speaks was there when the image
// was made, and so was what its links lead to: such files need not be opened, of which there are
// hundreds. What the driver brings is not among them.
class KnownFiles {
 public:
  void Reserve(std::size_t count);
  // Borrows the entry, whose path ends with `file`.
  void Add(base::LdCacheEntry& entry, std::string_view file);

  // `entries` are all of the folder, sorted. A file that the cache names is told from now on to be
  // there.
  bool Covers(std::string_view name, const std::vector<ContainerFolder::Entry>& entries);
  // Whether the cache leads this name to a file of another name: which of all is newest counts
  // then.
  [[nodiscard]] bool Renames(const std::string& soname) const { return renamed_.contains(soname); }
  void SetRank(std::uint32_t rank);
  // Takes the paths of those entries away whose file is not there.
  void DropMissing();
  // As if no file, or not the one of that name, were there.
  void Forget();
  void Forget(const std::string& soname);

 private:
  struct File {
    bool is_soname = false;  // its name leads to it
    bool is_there = false;
  };
  struct Listed {
    base::LdCacheEntry* entry;
    const File* file;
  };
  std::unordered_map<std::string_view, File> files_;
  std::unordered_set<std::string_view> renamed_;
  std::vector<Listed> listed_;
};

// The image's cache, by where its files lie.
class KnownFolders {
 public:
  // Borrows `cache`.
  KnownFolders(base::LdCache& cache, FolderPlaces& places);
  // What it says of a folder, by its place; null when that is empty, or it does not speak of it.
  KnownFiles* Find(const std::string& place);

 private:
  std::unordered_map<std::string, KnownFiles> folders_;
};

// Opens each library once, and none by its links.
class FolderScan {
 public:
  FolderScan(const ContainerRoot& root, std::string folder);

  // But for what `known` covers, unless null; it is told to forget all when that is not enough.
  // Nothing when the folder is missing.
  base::Result<std::vector<FolderLibrary>> Libraries(KnownFiles* known);
  // Whether the loader gets the file already when it opens `name`, or a library that is no link: as
  // ldconfig, nothing is put in that one's place (glibc: elf/ldconfig.c, create_links).
  bool NeedsNoLink(const std::string& name, const std::string& file);

 private:
  using Library = std::optional<base::ElfLibrary>;

  std::optional<FolderLibrary> LookAt(const ContainerFolder::Entry& entry);
  const Library& Read(const std::string& name, bool is_link);
  // The name in this folder to which links lead from `name`, which is its own where it is no link;
  // empty where they lead elsewhere.
  std::string EndOf(const std::string& name, bool is_link);
  [[nodiscard]] const ContainerFolder::Entry* Find(std::string_view name) const;

  const ContainerRoot& root_;
  std::string path_;
  std::optional<ContainerFolder> folder_;
  std::vector<ContainerFolder::Entry> entries_;
  std::unordered_map<std::string, Library> libraries_;  // by name of the file
  std::unordered_map<std::string, std::string> ends_;   // of links
};

}  // namespace pitcrew::shim
