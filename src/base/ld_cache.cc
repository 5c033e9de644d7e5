#include "base/ld_cache.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace pitcrew::base {
namespace {

constexpr std::string_view kOldMagic = "ld.so-1.7.0";
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr std::uint32_t kExtensionMagic = 0xeaa42174;
constexpr std::uint32_t kGeneratorTag = 0;
constexpr std::uint32_t kHwcapsTag = 1;
constexpr std::uint64_t kHwcapExtension = std::uint64_t{1} << 62;
constexpr std::uint8_t kLittleEndian = 2;
// Names of a cache that is worth reading: a path is at most PATH_MAX long, and all of a large
// distribution's are a few megabytes. Entries can share one name, so a small file can stand for any
// amount of text.
constexpr std::size_t kLongestText = 4096;
constexpr std::size_t kMostText = std::size_t{64} << 20;
constexpr std::string_view kGenerator = "pitcrew nvidia-cdi-hook";

struct Header {
  char magic[20];
  std::uint32_t count;
  std::uint32_t string_bytes;
  std::uint8_t flags;
  std::uint8_t padding[3];
  std::uint32_t extension_at;
  std::uint32_t unused[3];
};
static_assert(sizeof(Header) == 48);

struct Entry {
  std::int32_t flags;
  std::uint32_t name_at;
  std::uint32_t path_at;
  std::uint32_t os_version;
  std::uint64_t hwcap;
};
static_assert(sizeof(Entry) == 24);

struct Section {
  std::uint32_t tag;
  std::uint32_t flags;
  std::uint32_t at;
  std::uint32_t size;
};

Error BrokenCache(std::string_view what) {
  return Invalid("InvalidLdCache", "/etc/ld.so.cache: " + std::string(what));
}

// Bounds-checked reading of one cache file.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  Result<T> Get(std::uint64_t at) const {
    T value;
    if (at > bytes_.size() || bytes_.size() - at < sizeof(T))
      return Fail(BrokenCache("it is cut short"));
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  Result<std::string> Text(std::uint64_t at) {
    if (at >= bytes_.size()) return Fail(BrokenCache("a name lies outside"));
    const auto longest = bytes_.substr(at, kLongestText);
    const auto end = longest.find('\0');
    if (end == std::string_view::npos) return Fail(BrokenCache("a name has no end"));
    text_ += end;
    if (text_ > kMostText) return Fail(BrokenCache("its names are too long"));
    return std::string(longest.substr(0, end));
  }

 private:
  std::string_view bytes_;
  std::size_t text_ = 0;  // taken so far
};

Status ReadHwcaps(Bytes& in, std::uint32_t extension_at, LdCache& cache) {
  if (extension_at == 0) return {};
  TRY_ASSIGN(const auto magic, in.Get<std::uint32_t>(extension_at));
  TRY_ASSIGN(const auto count, in.Get<std::uint32_t>(extension_at + 4ULL));
  if (magic != kExtensionMagic) return Fail(BrokenCache("extension"));
  for (std::uint64_t i = 0; i < count && i < 64; ++i) {
    TRY_ASSIGN(const auto section, in.Get<Section>(extension_at + 8ULL + i * sizeof(Section)));
    if (section.tag != kHwcapsTag) continue;
    for (std::uint64_t at = 0; at + 4 <= section.size && cache.hwcaps.size() < 1024; at += 4) {
      TRY_ASSIGN(const auto name_at, in.Get<std::uint32_t>(section.at + at));
      TRY_ASSIGN(std::string name, in.Text(name_at));
      cache.hwcaps.push_back(std::move(name));
    }
  }
  return {};
}

bool IsExtension(const LdCacheEntry& entry) { return (entry.hwcap & kHwcapExtension) != 0; }

// As elf/cache.c's compare, with equal entries left in their order.
bool ComesBefore(const LdCacheEntry& a, const LdCacheEntry& b) {
  if (const int order = CompareLibraryNames(b.name, a.name); order != 0) return order < 0;
  if (a.flags != b.flags) return a.flags > b.flags;
  if (IsExtension(a) != IsExtension(b)) return IsExtension(a);
  return !IsExtension(a) && a.hwcap > b.hwcap;
}

// An entry of which all is the same.
struct Same {
  static std::size_t Hash(const LdCacheEntry* entry) {
    const std::hash<std::string_view> hash;
    return hash(entry->path) * 31 + hash(entry->name);
  }
  static bool Equal(const LdCacheEntry* a, const LdCacheEntry* b) {
    return a->path == b->path && a->name == b->name && a->flags == b->flags && a->hwcap == b->hwcap;
  }
};

// A stable sort for what is nearly sorted: another program's cache, and a few entries beside it.
void SortEntries(std::vector<const LdCacheEntry*>& entries) {
  constexpr std::size_t kMostMoved = 256;
  const auto before = [](const LdCacheEntry* a, const LdCacheEntry* b) {
    return ComesBefore(*a, *b);
  };
  std::vector<const LdCacheEntry*> sorted;
  sorted.reserve(entries.size());
  std::size_t moved = 0;
  for (const auto* entry : entries) {
    if (sorted.empty() || !before(entry, sorted.back())) {
      sorted.push_back(entry);
    } else if (++moved > kMostMoved) {
      std::ranges::stable_sort(entries, before);
      return;
    } else {
      sorted.insert(std::ranges::upper_bound(sorted, entry, before), entry);
    }
  }
  entries = std::move(sorted);
}

// Strings of a file under construction, each once. What is added stays where it is.
class Strings {
 public:
  explicit Strings(std::size_t begin) : begin_(begin) {}
  std::uint32_t Add(std::string_view text) {
    const auto [known, added] =
        offsets_.try_emplace(text, static_cast<std::uint32_t>(begin_ + bytes_.size()));
    if (added) (bytes_ += text) += '\0';
    return known->second;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::size_t begin_;
  std::string bytes_;
  std::unordered_map<std::string_view, std::uint32_t> offsets_;
};

template <class T>
void Append(std::string& out, const T& value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// Generator and names of hwcaps; `strings_at` is where the extension begins.
std::string Extension(std::uint32_t at, const std::vector<std::uint32_t>& hwcap_names) {
  std::string out;
  const std::uint32_t sections = hwcap_names.empty() ? 1 : 2;
  const auto data_at = static_cast<std::uint32_t>(at + 8 + sections * sizeof(Section));
  const auto hwcaps_size = static_cast<std::uint32_t>(4 * hwcap_names.size());
  Append(out, kExtensionMagic);
  Append(out, sections);
  Append(out, Section{kGeneratorTag, 0, data_at + hwcaps_size,
                      static_cast<std::uint32_t>(kGenerator.size())});
  if (sections == 2) Append(out, Section{kHwcapsTag, 0, data_at, hwcaps_size});
  for (const auto name : hwcap_names) Append(out, name);
  return out + std::string(kGenerator);
}

}  // namespace

int CompareLibraryNames(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size()) {
    const char other = j < b.size() ? b[j] : '\0';
    if (is_digit(a[i]) && is_digit(other)) {
      // glibc adds up in int; unsigned wraps the same way without being undefined.
      std::uint32_t left = 0;
      std::uint32_t right = 0;
      for (; i < a.size() && is_digit(a[i]); ++i)
        left = left * 10 + static_cast<unsigned>(a[i] - '0');
      for (; j < b.size() && is_digit(b[j]); ++j)
        right = right * 10 + static_cast<unsigned>(b[j] - '0');
      if (left != right)
        return static_cast<std::int32_t>(left) < static_cast<std::int32_t>(right) ? -1 : 1;
    } else if (is_digit(a[i])) {
      return 1;
    } else if (is_digit(other)) {
      return -1;
    } else if (a[i] != other) {
      return a[i] < other ? -1 : 1;
    } else {
      ++i;
      ++j;
    }
  }
  // The end is a zero byte, and char has a sign here and none on other machines, as in glibc.
  if (j == b.size()) return 0;
  return '\0' < b[j] ? -1 : 1;
}

std::int32_t LibraryFlags(std::uint16_t machine, bool is_64_bit) {
  constexpr std::int32_t kLibc6 = 0x0003;
  switch (machine) {
    case EM_X86_64:
      return is_64_bit ? kLibc6 | 0x0300 : kLibc6 | 0x0800;
    case EM_386:
      return kLibc6;
    case EM_AARCH64:
      return kLibc6 | 0x0a00;
    case EM_ARM:
      return kLibc6 | 0x0900;
    default:
      return 0;
  }
}

Result<LdCache> ParseLdCache(std::string_view bytes) {
  if (bytes.starts_with(kOldMagic)) {
    TRY_ASSIGN(const auto old_count, Bytes(bytes).Get<std::uint32_t>(12));
    const std::uint64_t end = (16 + std::uint64_t{old_count} * 12 + 7) & ~std::uint64_t{7};
    if (end > bytes.size()) return Fail(BrokenCache("it is cut short"));
    bytes.remove_prefix(end);
  }
  if (!bytes.starts_with(kMagic)) return Fail(BrokenCache("magic number"));
  Bytes in(bytes);
  TRY_ASSIGN(const auto header, in.Get<Header>(0));
  if ((header.flags & 3) != 0 && (header.flags & 3) != kLittleEndian) {
    return Fail(BrokenCache("byte order"));
  }
  LdCache cache;
  for (std::uint64_t i = 0; i < header.count; ++i) {
    TRY_ASSIGN(const auto entry, in.Get<Entry>(sizeof(Header) + i * sizeof(Entry)));
    TRY_ASSIGN(std::string name, in.Text(entry.name_at));
    TRY_ASSIGN(std::string path, in.Text(entry.path_at));
    cache.entries.push_back(
        {entry.flags, std::move(name), std::move(path), entry.os_version, entry.hwcap});
  }
  TRY(ReadHwcaps(in, header.extension_at, cache));
  return cache;
}

std::string WriteLdCache(const LdCache& cache) {
  std::unordered_set<const LdCacheEntry*, decltype(&Same::Hash), decltype(&Same::Equal)> seen(
      cache.entries.size(), &Same::Hash, &Same::Equal);
  std::vector<const LdCacheEntry*> sorted;
  for (const auto& entry : cache.entries) {
    if (seen.insert(&entry).second) sorted.push_back(&entry);
  }
  SortEntries(sorted);

  Strings strings(sizeof(Header) + sorted.size() * sizeof(Entry));
  std::string entries;
  for (const auto* entry : sorted) {
    Append(entries, Entry{entry->flags, strings.Add(entry->name), strings.Add(entry->path),
                          entry->os_version, entry->hwcap});
  }
  std::vector<std::uint32_t> hwcap_names;
  for (const auto& name : cache.hwcaps) hwcap_names.push_back(strings.Add(name));

  Header header{};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.count = static_cast<std::uint32_t>(sorted.size());
  header.string_bytes = static_cast<std::uint32_t>(strings.bytes().size());
  header.flags = kLittleEndian;
  const std::size_t strings_end = sizeof(Header) + entries.size() + strings.bytes().size();
  header.extension_at = static_cast<std::uint32_t>((strings_end + 3) & ~std::size_t{3});
  std::string out;
  Append(out, header);
  out += entries + strings.bytes();
  out.resize(header.extension_at, '\0');
  return out + Extension(header.extension_at, hwcap_names);
}

}  // namespace pitcrew::base
