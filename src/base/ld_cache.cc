#include "base/ld_cache.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
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

// As elf/cache.c's compare, with equal entries left in their order. Those of glibc-hwcaps have one
// of their own, whatever folder they are of.
bool ComesBefore(const LdCacheEntry& a, const LdCacheEntry& b) {
  if (const int order = CompareLibraryNames(b.name, a.name); order != 0) return order < 0;
  if (a.flags != b.flags) return a.flags > b.flags;
  if (IsExtension(a) != IsExtension(b)) return IsExtension(a);
  if (IsExtension(a)) return false;
  return a.hwcap != b.hwcap ? a.hwcap > b.hwcap : a.rank < b.rank;
}

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

// Takes away what repeats an earlier one of its name and kind. Among very many of one name, which
// no distribution has, only near ones are compared.
void DropRepeated(std::vector<const LdCacheEntry*>& sorted) {
  constexpr std::size_t kMostCompared = 32;
  std::size_t kept = 0;
  for (const auto* entry : sorted) {
    bool repeated = false;
    for (std::size_t i = kept; !repeated && i > 0 && kept - i < kMostCompared; --i) {
      const auto* other = sorted[i - 1];
      if (other->name != entry->name || other->flags != entry->flags) break;
      repeated = other->hwcap == entry->hwcap && other->path == entry->path;
    }
    if (!repeated) sorted[kept++] = entry;
  }
  sorted.resize(kept);
}

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
        {entry.flags, std::move(name), std::move(path), entry.os_version, entry.hwcap, 0});
  }
  TRY(ReadHwcaps(in, header.extension_at, cache));
  return cache;
}

std::string WriteLdCache(const LdCache& cache) {
  std::vector<const LdCacheEntry*> sorted;
  sorted.reserve(cache.entries.size());
  for (const auto& entry : cache.entries) sorted.push_back(&entry);
  SortEntries(sorted);
  DropRepeated(sorted);

  const std::size_t strings_begin = sizeof(Header) + sorted.size() * sizeof(Entry);
  std::string strings;
  const auto add = [&](std::string_view text) {
    const auto at = static_cast<std::uint32_t>(strings_begin + strings.size());
    (strings += text) += '\0';
    return at;
  };
  std::string entries;
  entries.reserve(sorted.size() * sizeof(Entry));
  std::string_view last_name;
  std::uint32_t last_name_at = 0;
  for (const auto* entry : sorted) {
    if (last_name_at == 0 || entry->name != last_name) {
      last_name = entry->name;
      last_name_at = add(last_name);
    }
    Append(entries,
           Entry{entry->flags, last_name_at, add(entry->path), entry->os_version, entry->hwcap});
  }
  std::vector<std::uint32_t> hwcap_names;
  for (const auto& name : cache.hwcaps) hwcap_names.push_back(add(name));

  Header header{};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.count = static_cast<std::uint32_t>(sorted.size());
  header.string_bytes = static_cast<std::uint32_t>(strings.size());
  header.flags = kLittleEndian;
  const std::size_t strings_end = sizeof(Header) + entries.size() + strings.size();
  header.extension_at = static_cast<std::uint32_t>((strings_end + 3) & ~std::size_t{3});
  std::string out;
  Append(out, header);
  (out += entries) += strings;
  out.resize(header.extension_at, '\0');
  return out + Extension(header.extension_at, hwcap_names);
}

}  // namespace pitcrew::base
