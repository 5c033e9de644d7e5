#include "shim/ld_cache_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "base/ld_cache.h"
#include "base/machine.h"
#include "base/strings.h"
#include "shim/folder_libraries.h"
#include "shim/loader_folders.h"

namespace pitcrew::shim {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kCache = "/etc/ld.so.cache";

bool Contains(const Words& list, const std::string& item) {
  return std::ranges::find(list, item) != list.end();
}

void AddOnce(Words& list, const std::string& item) {
  if (!Contains(list, item)) list.push_back(item);
}

// A folder of the loader's, in the order of the search.
struct SearchedFolder {
  std::string path;
  std::uint32_t rank = 0;
  bool is_requested = false;
};

// Entries of the folder's libraries that `known` does not cover; of a requested one also the links
// that have the SONAMEs as their names.
base::Status AddFolder(const ContainerRoot& root, const SearchedFolder& folder, KnownFiles* known,
                       std::vector<base::LdCacheEntry>& entries) {
  FolderScan scan(root, folder.path);
  const auto found = scan.Libraries(known);
  if (!found && folder.is_requested) return base::Fail(found.error());
  if (known != nullptr) known->SetRank(folder.rank);
  // ldconfig passes over a folder that it may not list. What the image says of it still holds.
  if (!found) return {};
  for (const auto& library : *found) {
    // Of one name a folder has one library, which need not be the one that the image's cache knows.
    if (known != nullptr) known->Forget(library.name);
    std::string path = folder.path + "/" + library.file;
    const std::string named = folder.path + "/" + library.name;
    if (path == named || scan.NeedsNoLink(library.name, library.file)) {
      path = named;
    } else if (folder.is_requested) {
      const auto linked = root.SetLink(named, library.file);
      // In a folder that cannot be written (a read-only mount) the loader gets the file itself.
      if (!linked && linked.error().code != base::Code::kDenied) return base::Fail(linked.error());
      if (linked) path = named;
    }
    entries.push_back({library.flags, library.name, std::move(path), 0, 0, folder.rank});
  }
  if (known != nullptr) known->DropMissing();
  return {};
}

base::Status AppendLines(const ContainerRoot& root, const std::string& path, const Words& lines) {
  const auto existing = root.ReadFile(path, 1U << 20);
  std::string content = existing ? *existing : "";
  if (!content.empty() && !content.ends_with('\n')) content += '\n';
  const auto present = base::Split(content, '\n');
  bool changed = false;
  for (const auto& line : lines) {
    if (Contains(present, line)) continue;
    content += line + "\n";
    changed = true;
  }
  return changed ? root.WriteFile(path, content, 0644) : base::Status{};
}

// A list takes the place of the folders that musl searches without one
// ("/lib:/usr/local/lib:/usr/lib"): where the image has none, they are in ours, in musl's order.
base::Status NameFoldersForMusl(const ContainerRoot& root, const Words& system, Words lines) {
  const std::string path = fmt::format("/etc/ld-musl-{}.path", base::kOwnMachine);
  TRY_ASSIGN(const bool has_list, root.Exists(path));
  if (!has_list) {
    for (const char* folder : {"/lib", "/usr/local/lib", "/usr/lib"}) AddOnce(lines, folder);
  }
  for (const auto& folder : system) AddOnce(lines, folder);
  return AppendLines(root, path, lines);
}

base::Status NameFolders(const ContainerRoot& root, const Words& system,
                         const LoaderFolders& configured, const Words& extra,
                         const std::string& ours) {
  TRY_ASSIGN(const bool is_musl, root.Exists("/etc/alpine-release"));
  if (is_musl) TRY(NameFoldersForMusl(root, system, extra));
  if (!configured.is_configured) {
    TRY_ASSIGN(const bool exists, root.Exists(kLoaderConfiguration));
    if (!exists) {
      TRY(root.WriteFile(kLoaderConfiguration, "include /etc/ld.so.conf.d/*.conf\n", 0644));
    }
  }
  if (extra.empty()) return {};
  return root.WriteFile(fmt::format("{}/{}", kLoaderIncludes, ours), base::Join(extra, "\n") + "\n",
                        0644);
}

std::optional<base::LdCache> ReadCache(const ContainerRoot& root) {
  const auto bytes = root.ReadFile(kCache);
  if (!bytes) return std::nullopt;
  auto parsed = base::ParseLdCache(*bytes);
  if (!parsed) return std::nullopt;
  return *std::move(parsed);
}

// What ldconfig would search: the configuration's folders with `extra` where the hook's file stands
// among them, then the system's. Those that lead to the same place as an earlier one are left out:
// /lib is often a link to /usr/lib.
std::vector<SearchedFolder> SearchOrder(const LoaderFolders& configured, const Words& extra,
                                        const Words& system, const Words& requested,
                                        FolderPlaces& places) {
  const auto place_of = [&](const std::string& folder) {
    const std::string& place = places.Of(folder);
    return place.empty() ? folder : place;
  };
  Words all = configured.folders;
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(configured.place_of_ours), extra.begin(),
             extra.end());
  all.insert(all.end(), system.begin(), system.end());
  std::set<std::string> requested_places;
  for (const auto& folder : requested) requested_places.insert(place_of(folder));
  std::vector<SearchedFolder> order;
  std::set<std::string> seen;
  for (auto& folder : all) {
    const std::string place = place_of(folder);
    if (!seen.insert(place).second) continue;
    const auto rank = static_cast<std::uint32_t>(order.size());
    order.push_back({std::move(folder), rank, requested_places.contains(place)});
  }
  return order;
}

}  // namespace

base::Status UpdateLdCache(const ContainerRoot& root, const Words& requested) {
  const std::string ours = fmt::format("00-nvcr-{}.conf", RandomName());
  TRY_ASSIGN(const auto system, SystemFolders(root));
  TRY_ASSIGN(const LoaderFolders configured, ReadLoaderFolders(root, ours));
  Words extra;
  for (const auto& folder : requested) {
    const bool known = Contains(system, folder) || Contains(configured.folders, folder);
    if (!known) AddOnce(extra, folder);
  }
  TRY(NameFolders(root, system, configured, extra, ours));

  auto read = ReadCache(root);
  // Its own ldconfig has chosen where to look; without one all is looked for.
  Words searched;
  if (!read) {
    TRY_ASSIGN(searched, FoldersOfDebiansLayout(root));
  }
  for (const auto& folder : system) AddOnce(searched, folder);
  base::LdCache cache = std::move(read).value_or(base::LdCache());
  // Whoever ran ldconfig with other folders in this image wants them to be found; behind all else.
  for (auto& entry : cache.entries) entry.rank = std::numeric_limits<std::uint32_t>::max();
  FolderPlaces places(root);
  KnownFolders known(cache, places);
  std::vector<base::LdCacheEntry> added;
  for (const auto& folder : SearchOrder(configured, extra, searched, requested, places)) {
    TRY(AddFolder(root, folder, known.Find(places.Of(folder.path)), added));
  }
  std::erase_if(cache.entries, [](const base::LdCacheEntry& entry) { return entry.path.empty(); });
  cache.entries.insert(cache.entries.end(), std::make_move_iterator(added.begin()),
                       std::make_move_iterator(added.end()));
  return root.WriteFile(kCache, WriteLdCache(cache), 0644);
}

}  // namespace pitcrew::shim
