#include "shim/folder_libraries.h"

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
  return places_.emplace(folder, root_.Resolve(folder).value_or("")).first->second;
}

KnownFiles::KnownFiles(const std::string& folder, const base::LdCache& cache,
                       FolderPlaces& places) {
  const std::string& place = places.Of(folder);
  if (place.empty()) return;
  // Nearly all entries are of the same few folders, one after another.
  files_.reserve(cache.entries.size());
  sonames_.reserve(cache.entries.size());
  std::string_view last;
  bool last_is_here = false;
  for (const auto& entry : cache.entries) {
    const std::string_view path = entry.path;
    const auto slash = path.rfind('/');
    if (slash == std::string_view::npos) continue;
    if (path.substr(0, slash) != last) {
      if (places.size() > kMostPlaces) return;
      last = path.substr(0, slash);
      last_is_here = places.Of(last) == place;
    }
    if (!last_is_here) continue;
    const auto file = path.substr(slash + 1);
    files_.insert(file);
    (file == entry.name ? sonames_ : renamed_).insert(entry.name);
  }
}

bool KnownFiles::Covers(std::string_view name, const Entries& entries) const {
  if (files_.contains(name)) return true;
  // libz.so.1.3.1 is what libz.so.1 leads to, when there is no other version of it.
  // libcuda.so.580 is nothing that libcuda.so tells of.
  const auto version = name.find(".so.");
  if (version == std::string_view::npos) return false;
  for (auto dot = name.find('.', version + 4); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    const auto soname = name.substr(0, dot);
    if (sonames_.contains(soname) && FindEntry(entries, soname) != nullptr) {
      return !HasVersions(std::string(soname) + ".", entries);
    }
  }
  return false;
}

FolderScan::FolderScan(const ContainerRoot& root, std::string folder)
    : root_(root), path_(std::move(folder)) {}

base::Result<std::vector<FolderLibrary>> FolderScan::Libraries(const KnownFiles* known) {
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
    if (known != nullptr && known->Renames(library->name)) return Libraries(nullptr);
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
