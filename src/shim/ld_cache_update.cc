#include "shim/ld_cache_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/ld_cache.h"
#include "base/strings.h"
#include "shim/folder_libraries.h"
#include "shim/loader_folders.h"

namespace pitcrew::shim {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kCache = "/etc/ld.so.cache";
#if defined(__aarch64__)
constexpr const char* kMuslPath = "/etc/ld-musl-aarch64.path";
#else
constexpr const char* kMuslPath = "/etc/ld-musl-x86_64.path";
#endif

bool Contains(const Words& list, const std::string& item) {
  return std::ranges::find(list, item) != list.end();
}

void AddOnce(Words& list, const std::string& item) {
  if (!Contains(list, item)) list.push_back(item);
}

// Entries of the folder; with `make_links` also the links that have the SONAMEs as their names.
base::Status AddFolder(const ContainerRoot& root, const std::string& folder, bool make_links,
                       const KnownFiles* known_files, std::vector<base::LdCacheEntry>& entries) {
  FolderScan scan(root, folder);
  TRY_ASSIGN(const auto found, scan.Libraries(known_files));
  for (const auto& library : found) {
    std::string path = folder + "/" + library.file;
    const std::string named = folder + "/" + library.name;
    if (path == named || scan.NeedsNoLink(library.name, library.file)) {
      path = named;
    } else if (make_links) {
      const auto linked = root.SetLink(named, library.file);
      // In a folder that cannot be written (a read-only mount) the loader gets the file itself.
      if (!linked && linked.error().code != base::Code::kDenied) return base::Fail(linked.error());
      if (linked) path = named;
    }
    entries.push_back({library.flags, library.name, std::move(path), 0, 0});
  }
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
  TRY_ASSIGN(const bool has_list, root.Exists(kMuslPath));
  if (!has_list) {
    for (const char* folder : {"/lib", "/usr/local/lib", "/usr/lib"}) AddOnce(lines, folder);
  }
  for (const auto& folder : system) AddOnce(lines, folder);
  return AppendLines(root, kMuslPath, lines);
}

base::Status NameFolders(const ContainerRoot& root, const Words& system,
                         const LoaderFolders& configured, const Words& extra) {
  TRY_ASSIGN(const bool is_musl, root.Exists("/etc/alpine-release"));
  if (is_musl) TRY(NameFoldersForMusl(root, system, extra));
  if (!configured.is_configured) {
    TRY_ASSIGN(const bool exists, root.Exists(kLoaderConfiguration));
    if (!exists) {
      TRY(root.WriteFile(kLoaderConfiguration, "include /etc/ld.so.conf.d/*.conf\n", 0644));
    }
  }
  if (extra.empty()) return {};
  return root.WriteFile(fmt::format("/etc/ld.so.conf.d/00-nvcr-{}.conf", RandomName()),
                        base::Join(extra, "\n") + "\n", 0644);
}

std::optional<base::LdCache> ReadCache(const ContainerRoot& root) {
  const auto bytes = root.ReadFile(kCache);
  if (!bytes) return std::nullopt;
  auto parsed = base::ParseLdCache(*bytes);
  if (!parsed) return std::nullopt;
  return *std::move(parsed);
}

// The loader takes the first entry of a name: what hooks put in front comes before the image's own
// folders, system folders come last.
struct SearchOrder {
  Words first;
  Words last;
};

SearchOrder OrderOf(const Words& system, LoaderFolders configured, const Words& requested,
                    const Words& extra, bool has_cache) {
  SearchOrder order;
  order.first = std::move(configured.from_hooks);
  for (const auto& folder : extra) AddOnce(order.first, folder);
  if (!has_cache) order.last = std::move(configured.others);
  for (const auto& folder : requested) {
    if (!Contains(order.first, folder)) AddOnce(order.last, folder);
  }
  if (!has_cache) {
    for (const auto& folder : system) AddOnce(order.last, folder);
  }
  return order;
}

// Drops folders of `last` that lead to the same place as an earlier one of either list: /lib is
// often a link to /usr/lib, and one scan is enough.
void DropAliases(SearchOrder& order, FolderPlaces& places) {
  if (order.first.size() + order.last.size() < 2) return;
  const auto place_of = [&](const std::string& folder) {
    const std::string& place = places.Of(folder);
    return place.empty() ? folder : place;
  };
  std::set<std::string> seen;
  for (const auto& folder : order.first) seen.insert(place_of(folder));
  std::erase_if(order.last,
                [&](const std::string& folder) { return !seen.insert(place_of(folder)).second; });
}

}  // namespace

base::Status UpdateLdCache(const ContainerRoot& root, const Words& requested) {
  TRY_ASSIGN(const auto system, SystemFolders(root));
  TRY_ASSIGN(LoaderFolders configured, ReadLoaderFolders(root));
  Words extra;
  for (const auto& folder : requested) {
    const bool known = Contains(system, folder) || Contains(configured.others, folder) ||
                       Contains(configured.from_hooks, folder);
    if (!known) AddOnce(extra, folder);
  }
  TRY(NameFolders(root, system, configured, extra));

  TRY_ASSIGN(Words searched, FoldersOfDebiansLayout(root));
  for (const auto& folder : system) AddOnce(searched, folder);
  auto read = ReadCache(root);
  SearchOrder order = OrderOf(searched, std::move(configured), requested, extra, read.has_value());
  base::LdCache cache = std::move(read).value_or(base::LdCache());
  FolderPlaces places(root);
  DropAliases(order, places);
  std::vector<base::LdCacheEntry> entries;
  for (const auto& folder : order.first) {
    TRY(AddFolder(root, folder, Contains(requested, folder), nullptr, entries));
  }
  std::vector<base::LdCacheEntry> behind;
  for (const auto& folder : order.last) {
    const KnownFiles known_files(folder, cache, places);
    TRY(AddFolder(root, folder, Contains(requested, folder), &known_files, behind));
  }
  cache.entries.insert(cache.entries.begin(), entries.begin(), entries.end());
  cache.entries.insert(cache.entries.end(), behind.begin(), behind.end());
  return root.WriteFile(kCache, WriteLdCache(cache), 0644);
}

}  // namespace pitcrew::shim
