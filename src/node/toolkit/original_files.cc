#include "node/toolkit/original_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "base/strings.h"
#include "codec/json.h"
#include "node/toolkit/replace_file.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;
namespace fs = std::filesystem;

constexpr mode_t kForRoot = 0600;

template <typename Files>
auto FileAt(Files& files, const fs::path& path) -> decltype(&*files.begin()) {
  const auto found =
      std::ranges::find_if(files, [&](const auto& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

const WayBack* FindWay(const OriginalFile& original, const std::string& now) {
  const auto hash = base::HashFnv1a32(now);
  const auto found = std::ranges::find_if(original.ways, [&](const WayBack& way) {
    return way.ours == hash && way.size == now.size();
  });
  return found == original.ways.end() ? nullptr : &*found;
}

// What is known of a file once `ours` takes the place of `now`; nullopt when its original is not
// known.
std::optional<OriginalFile> NoteOriginal(const OriginalFile* known, const SavedFile& now,
                                         const FileContent* cleaned, const FileContent& ours) {
  const std::string next = ours.content.value_or("");
  if (known != nullptr && now.file.content && FindWay(*known, *now.file.content) != nullptr) {
    const auto before = GoBack(*known, *now.file.content);
    OriginalFile noted = *known;
    noted.ways = {*FindWay(*known, *now.file.content)};
    if (next != *now.file.content) {
      noted.ways.push_back(FindWayBack(next, before->file.content.value_or("")));
    }
    return noted;
  }
  if (cleaned != nullptr && cleaned->content != now.file.content) return std::nullopt;
  return OriginalFile{now.file.path, now.file.content.has_value(),
                      now.mode,      now.owner,
                      now.group,     {FindWayBack(next, now.file.content.value_or(""))}};
}

// Bytes as they are: a file need not be text that JSON could hold.
std::string ToHex(const std::string& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string FromHex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoul(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

Json OriginalToJson(const OriginalFile& original) {
  Json ways = Json::array();
  for (const auto& way : original.ways) {
    ways.push_back({{"ours", way.ours},
                    {"size", way.size},
                    {"begin", way.begin},
                    {"end", way.end},
                    {"taken", ToHex(way.taken)}});
  }
  return {{"path", original.path.string()}, {"exists", original.exists}, {"mode", original.mode},
          {"owner", original.owner},        {"group", original.group},   {"ways", std::move(ways)}};
}

OriginalFile OriginalFromJson(const Json& json) {
  OriginalFile original;
  original.path = json.at("path").get<std::string>();
  original.exists = json.at("exists").get<bool>();
  original.mode = json.at("mode").get<mode_t>();
  original.owner = json.at("owner").get<uid_t>();
  original.group = json.at("group").get<gid_t>();
  for (const auto& way : json.at("ways")) {
    original.ways.push_back({way.at("ours").get<std::uint32_t>(), way.at("size").get<std::size_t>(),
                             way.at("begin").get<std::size_t>(), way.at("end").get<std::size_t>(),
                             FromHex(way.at("taken").get<std::string>())});
  }
  return original;
}

}  // namespace

WayBack FindWayBack(const std::string& ours, const std::string& original) {
  const std::size_t shorter = std::min(ours.size(), original.size());
  WayBack way{base::HashFnv1a32(ours), ours.size(), 0, 0, {}};
  while (way.begin < shorter && ours[way.begin] == original[way.begin]) ++way.begin;
  while (way.end < shorter - way.begin &&
         ours[ours.size() - 1 - way.end] == original[original.size() - 1 - way.end]) {
    ++way.end;
  }
  way.taken = original.substr(way.begin, original.size() - way.begin - way.end);
  return way;
}

std::optional<SavedFile> GoBack(const OriginalFile& original, const std::string& now) {
  const WayBack* way = FindWay(original, now);
  if (way == nullptr || way->begin + way->end > now.size()) return std::nullopt;
  SavedFile saved{{original.path, std::nullopt}, original.mode, original.owner, original.group};
  if (original.exists) {
    saved.file.content = now.substr(0, way->begin) + way->taken + now.substr(now.size() - way->end);
  }
  return saved;
}

std::vector<OriginalFile> NoteOriginals(const std::vector<OriginalFile>& known,
                                        const std::vector<SavedFile>& now,
                                        const std::vector<FileContent>& cleaned,
                                        const std::vector<FileContent>& wanted) {
  std::vector<OriginalFile> noted;
  for (const auto& saved : now) {
    const FileContent* ours = FileAt(wanted, saved.file.path);
    const OriginalFile* before = FileAt(known, saved.file.path);
    if (ours == nullptr) {
      if (before != nullptr) noted.push_back(*before);
      continue;
    }
    auto original = NoteOriginal(before, saved, FileAt(cleaned, saved.file.path), *ours);
    if (original) noted.push_back(*std::move(original));
  }
  return noted;
}

base::Result<std::vector<OriginalFile>> ReadOriginals(const fs::path& file) {
  std::vector<OriginalFile> originals;
  const auto text = base::ReadFile(file);
  if (!text && text.error().code == base::Code::kNotFound) return originals;
  if (!text) return base::Fail(text.error());
  TRY_ASSIGN(const Json json, codec::ParseJson(*text, file.string()));
  try {
    for (const auto& original : json.at("files")) originals.push_back(OriginalFromJson(original));
  } catch (const std::exception& problem) {
    return base::Fail(base::Invalid(
        "InvalidOriginals", fmt::format("{} is not what the toolkit writes there ({}): remove it, "
                                        "and the engine's files are only cleaned when it leaves",
                                        file.string(), problem.what())));
  }
  return originals;
}

base::Status WriteOriginals(const fs::path& file, const std::vector<OriginalFile>& originals) {
  RemoveLeftover(file);
  if (originals.empty()) {
    if (::unlink(file.c_str()) == 0 || errno == ENOENT) return {};
    return base::Fail(base::FromErrno(errno, "remove " + file.string()));
  }
  Json files = Json::array();
  for (const auto& original : originals) files.push_back(OriginalToJson(original));
  TRY_ASSIGN(const auto now, ReadFileState(file));
  return ReplaceFile(
      file, {codec::ToJsonText({{"files", std::move(files)}}), kForRoot, ::geteuid(), ::getegid()},
      now.content);
}

}  // namespace pitcrew::node::toolkit
