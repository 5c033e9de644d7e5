#include "shim/folder_libraries.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

namespace pitcrew::shim {
namespace {

constexpr std::size_t kMostPlaces = 4096;
constexpr int kLongestChain = 8;  // of links within one folder

using Entries = std::vector<ContainerFolder::Entry>;

const ContainerFolder::Entry* FindEntry(const Entries& entries, std::string_view name) {
  const auto found = std::ranges::lower_bound(entries, name, {}, &ContainerFolder::Entry::name);
  return found != entries.end() && found->name == name ? &*found : nullptr;
}

bool HasVersions(const std::string& prefix, const Entries& entries) {
  const auto first = std::ranges::lower_bound(entries, prefix, {}, &ContainerFolder::Entry::name);
  return entries.end() - first > 1 && (first + 1)->name.starts_with(prefix);
}

// Empty for a path without folder.
std::string_view FolderOf(std::string_view path) {
  return path.substr(0, path.rfind('/') == path.npos ? 0 : path.rfind('/'));
}

// ldconfig's choice of names.
bool MayBeLibrary(std::string_view name) {
  return (name.starts_with("lib") || name.starts_with("ld-") || name.starts_with("ld.so")) &&
         name.find(".so") != std::string_view::npos;
}

// "libcuda.so.580.95.05" is newer than "libcuda.so.570.1".
bool IsNewer(const std::string& name, const std::string& other) {
  return base::CompareLibraryNames(name, other) > 0;
}

// A file goes before a link, a newer one before an older.
void Add(std::vector<FolderLibrary>& all, FolderLibrary found) {
  const auto known = std::ranges::find_if(all, [&](const FolderLibrary& other) {
    return other.name == found.name && other.flags == found.flags;
  });
  if (known == all.end()) {
    all.push_back(std::move(found));
  } else if (known->is_link == found.is_link ? IsNewer(found.file, known->file) : known->is_link) {
    *known = std::move(found);
  }
}

}  // namespace

const std::string& FolderPlaces::Of(std::string_view folder) {
  const auto known = places_.find(folder);
  if (known != places_.end()) return known->second;
  std::string place;
  struct stat info{};
  if (const auto found = root_.Find(folder);
      found && ::fstat(found->get(), &info) == 0 && S_ISDIR(info.st_mode)) {
    place = fmt::format("{}:{}", info.st_dev, info.st_ino);
  }
  return places_.emplace(folder, std::move(place)).first->second;
}

void KnownFiles::Reserve(std::size_t count) {
  files_.reserve(count);
  listed_.reserve(count);
}

void KnownFiles::Add(base::LdCacheEntry& entry, std::string_view file) {
  File& known = files_[file];
  if (file == entry.name) {
    known.is_soname = true;
  } else {
    renamed_.insert(entry.name);
  }
  listed_.push_back({&entry, &known});
}

void KnownFiles::SetRank(std::uint32_t rank) {
  for (const auto& listed : listed_) listed.entry->rank = rank;
}

void KnownFiles::DropMissing() {
  for (const auto& [entry, file] : listed_) {
    if (!file->is_there) entry->path.clear();
  }
}

void KnownFiles::Forget() {
  for (auto& [name, file] : files_) file.is_there = false;
}

void KnownFiles::Forget(const std::string& soname) {
  if (const auto known = files_.find(soname); known != files_.end()) known->second.is_there = false;
}

KnownFolders::KnownFolders(base::LdCache& cache, FolderPlaces& places) {
  struct Counted {
    KnownFiles* known = nullptr;
    std::size_t count = 0;
  };
  // Nearly all entries are of the same few folders, one after another.
  std::unordered_map<std::string_view, Counted> folders;
  std::vector<Counted*> of_entries;
  of_entries.reserve(cache.entries.size());
  std::string_view last;
  Counted* entries = nullptr;
  for (const auto& entry : cache.entries) {
    const auto folder = FolderOf(entry.path);
    if (entries == nullptr || folder != last) {
      last = folder;
      const auto [found, added] = folders.try_emplace(folder);
      entries = &found->second;
      if (added && folders.size() <= kMostPlaces) {
        const std::string& place = places.Of(folder);
        entries->known = place.empty() ? nullptr : &folders_[place];
      }
    }
    ++entries->count;
    of_entries.push_back(entries);
  }
  for (const auto& [folder, counted] : folders) {
    if (counted.known != nullptr) counted.known->Reserve(counted.count);
  }
  for (std::size_t i = 0; i < of_entries.size(); ++i) {
    if (of_entries[i]->known == nullptr) continue;
    auto& entry = cache.entries[i];
    of_entries[i]->known->Add(entry,
                              std::string_view(entry.path).substr(entry.path.rfind('/') + 1));
  }
}

KnownFiles* KnownFolders::Find(const std::string& place) {
  const auto found = folders_.find(place);
  return found == folders_.end() ? nullptr : &found->second;
}

bool KnownFiles::Covers(std::string_view name, const Entries& entries) {
  if (const auto known = files_.find(name); known != files_.end()) {
    return known->second.is_there = true;
  }
  // libz.so.1.3.1 is what libz.so.1 leads to, when there is no other version of it.
  // libcuda.so.580 is nothing that libcuda.so tells of.
  const auto version = name.find(".so.");
  if (version == std::string_view::npos) return false;
  for (auto dot = name.find('.', version + 4); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    const auto soname = name.substr(0, dot);
    const auto known = files_.find(soname);
    if (known != files_.end() && known->second.is_soname && FindEntry(entries, soname) != nullptr) {
      return !HasVersions(std::string(soname) + ".", entries);
    }
  }
  return false;
}

FolderScan::FolderScan(const ContainerRoot& root, std::string folder)
    : root_(root), path_(std::move(folder)) {}

base::Result<std::vector<FolderLibrary>> FolderScan::Libraries(KnownFiles* known) {
  std::vector<FolderLibrary> found;
  if (!folder_) {
    auto folder = root_.OpenFolder(path_);
    if (!folder && folder.error().code == base::Code::kNotFound) return found;
    if (!folder) return base::Fail(folder.error());
    folder_.emplace(*std::move(folder));
    TRY_ASSIGN(entries_, folder_->List());
  }
  for (const auto& entry : entries_) {
    if (!MayBeLibrary(entry.name)) continue;
    if (known != nullptr && known->Covers(entry.name, entries_)) continue;
    auto library = LookAt(entry);
    if (!library) continue;
    if (known != nullptr && known->Renames(library->name)) {
      known->Forget();
      return Libraries(nullptr);
    }
    Add(found, *std::move(library));
  }
  return found;
}

// A link counts as one where its name is the SONAME, or what programs are linked with (libz.so of
// libz.so.1); any other link is a file.
std::optional<FolderLibrary> FolderScan::LookAt(const ContainerFolder::Entry& entry) {
  const std::string name(entry.name);
  const Library& library = Read(name, entry.is_link);
  if (!library) return std::nullopt;
  const std::int32_t flags = base::LibraryFlags(library->machine, library->is_64_bit);
  if (flags == 0 || library->soname.find('/') != std::string::npos) return std::nullopt;
  FolderLibrary found{library->soname.empty() ? name : library->soname, name, false, flags};
  const bool is_development_link = name.ends_with(".so") && found.name.starts_with(name);
  if (entry.is_link && (name == found.name || is_development_link)) {
    found.is_link = true;
    found.name = name;
  }
  return found;
}

// Nothing where it is a folder, a link to nothing, a linker script or another text.
const FolderScan::Library& FolderScan::Read(const std::string& name, bool is_link) {
  const std::string end = EndOf(name, is_link);
  const auto [known, added] = libraries_.try_emplace(end.empty() ? name : end);
  if (!added) return known->second;
  const auto file = end.empty() ? root_.OpenFile(path_ + "/" + name) : folder_->OpenFile(end);
  if (!file) return known->second;
  if (auto library = base::ReadElfLibrary(file->get())) known->second = *std::move(library);
  return known->second;
}

std::string FolderScan::EndOf(const std::string& name, bool is_link) {
  if (!is_link) return name;
  const auto [known, added] = ends_.try_emplace(name);
  if (!added) return known->second;
  std::string at = name;
  for (int i = 0; i < kLongestChain; ++i) {
    const auto target = folder_->ReadLink(at);
    const auto* const entry = target ? Find(*target) : nullptr;
    if (entry == nullptr) break;  // in another folder, or nowhere
    at = entry->name;
    if (!entry->is_link) return ends_[name] = at;
  }
  return "";
}

const ContainerFolder::Entry* FolderScan::Find(std::string_view name) const {
  return FindEntry(entries_, name);
}

bool FolderScan::NeedsNoLink(const std::string& name, const std::string& file) {
  const auto* const named = Find(name);
  const auto* const wanted_entry = Find(file);
  if (named == nullptr) return false;
  if (wanted_entry != nullptr) {
    const std::string end = EndOf(name, named->is_link);
    if (!end.empty() && end == EndOf(file, wanted_entry->is_link)) return true;
  }
  const std::string link = path_ + "/" + name;
  struct stat there{};
  struct stat wanted{};
  const auto at_link = root_.Find(link);
  if (!at_link || ::fstat(at_link->get(), &there) != 0) return false;
  const auto at_file = root_.Find(path_ + "/" + file);
  if (!at_file || ::fstat(at_file->get(), &wanted) != 0) return false;
  if (there.st_dev == wanted.st_dev && there.st_ino == wanted.st_ino) return true;
  // An empty one is what is left of a container that was made an image while the driver was in it.
  return S_ISREG(there.st_mode) && there.st_size > 0 && !root_.ReadLink(link);
}

}  // namespace pitcrew::shim
