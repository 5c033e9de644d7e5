#include "node/toolkit/engine_files.h"

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

constexpr mode_t kOrdinary = 0644;
constexpr mode_t kOwnerOnly = 0600;
// As the kernel's own limit of links in one path.
constexpr int kMostLinks = 40;

fs::path Journal(const fs::path& state_folder) { return state_folder / "engine-change.json"; }

base::Error OutOfSight(const fs::path& link, const fs::path& target) {
  return {base::Code::kUnsupported, "LinkOutOfSight",
          fmt::format("{} is a link to {}, which cannot be seen from here: name the file itself as "
                      "the engine's configuration",
                      link.string(), target.string())};
}

FileState StateOf(const SavedFile& saved) {
  return {saved.file.content, saved.mode, saved.owner, saved.group};
}

Json ToJson(const SavedFile& saved) {
  Json json = {{"path", saved.file.path.string()}, {"content", nullptr}};
  if (!saved.file.content) return json;
  json["content"] = *saved.file.content;
  json["mode"] = saved.mode;
  json["owner"] = saved.owner;
  json["group"] = saved.group;
  return json;
}

SavedFile FromJson(const Json& json) {
  SavedFile saved;
  saved.file.path = json.at("path").get<std::string>();
  if (json.at("content").is_null()) return saved;
  saved.file.content = json.at("content").get<std::string>();
  saved.mode = json.at("mode").get<mode_t>();
  saved.owner = json.at("owner").get<uid_t>();
  saved.group = json.at("group").get<gid_t>();
  return saved;
}

Json MarksToJson(const std::vector<ContentMark>& marks) {
  Json list = Json::array();
  for (const auto& mark : marks) {
    list.push_back({{"path", mark.path.string()},
                    {"exists", mark.exists},
                    {"hash", mark.hash},
                    {"size", mark.size}});
  }
  return list;
}

// A journal of an older toolkit has none.
std::vector<ContentMark> MarksFromJson(const Json& change, const char* name) {
  std::vector<ContentMark> marks;
  for (const auto& json : change.value(name, Json::array())) {
    marks.push_back({json.at("path").get<std::string>(), json.at("exists").get<bool>(),
                     json.at("hash").get<std::uint32_t>(), json.at("size").get<std::size_t>()});
  }
  return marks;
}

}  // namespace

ContentMark MarkOf(const FileContent& file) {
  if (!file.content) return {file.path};
  return {file.path, true, base::HashFnv1a32(*file.content), file.content->size()};
}

bool IsMarked(const std::vector<ContentMark>& marks, const FileContent& file) {
  return std::ranges::find(marks, MarkOf(file)) != marks.end();
}

bool Differs(const FileContent& wanted, const SavedFile& now) {
  const bool is_too_open = now.file.content && (now.mode & ~wanted.most_mode) != 0;
  return now.file.content != wanted.content || is_too_open;
}

base::Result<fs::path> EngineFileStore::Resolve(fs::path path) const {
  for (int hops = 0; hops < kMostLinks; ++hops) {
    std::error_code problem;
    const auto target = fs::read_symlink(path, problem);
    if (problem == std::errc::invalid_argument || problem == std::errc::no_such_file_or_directory ||
        problem == std::errc::not_a_directory) {
      return path;
    }
    if (problem) {
      return base::Fail(base::FromErrno(problem.value(), "read the link " + path.string()));
    }
    const auto link = path;
    if (target.is_absolute()) {
      path = host_root_.empty() ? target : host_root_ / target.relative_path();
    } else if (target.lexically_normal().string().starts_with("..")) {
      // Above the folder of the engine's configuration, which is mounted here by itself.
      if (host_root_ != "/" && !host_root_.empty()) return base::Fail(OutOfSight(link, target));
      path = path.parent_path() / target;
    } else {
      path = path.parent_path() / target;
    }
    if (!fs::exists(path.parent_path(), problem)) return base::Fail(OutOfSight(link, target));
  }
  return base::Fail(base::FromErrno(ELOOP, "follow the link " + path.string()));
}

base::Result<std::optional<std::string>> EngineFileStore::Read(const fs::path& path) const {
  if (path.empty()) return std::nullopt;
  TRY_ASSIGN(const auto file, Resolve(path));
  auto text = base::ReadFile(file);
  if (text) return *std::move(text);
  if (text.error().code == base::Code::kNotFound) return std::nullopt;
  return base::Fail(text.error());
}

base::Result<SavedFile> EngineFileStore::Save(const fs::path& path) const {
  TRY_ASSIGN(const auto file, Resolve(path));
  TRY_ASSIGN(auto state, ReadFileState(file));
  return SavedFile{{path, std::move(state.content)}, state.mode, state.owner, state.group};
}

base::Status EngineFileStore::Put(const FileContent& file, const SavedFile& before) const {
  TRY_ASSIGN(const auto path, Resolve(file.path));
  FileState wanted = StateOf(before);
  if (!before.file.content) wanted = {{}, kOrdinary, ::geteuid(), ::getegid()};
  wanted.mode &= file.most_mode;
  wanted.content = file.content;
  return ReplaceFile(path, wanted, before.file.content);
}

base::Status EngineFileStore::Put(const FileContent& file) const {
  TRY_ASSIGN(const SavedFile now, Save(file.path));
  return Put(file, now);
}

base::Status EngineFileStore::PutBack(const SavedFile& saved, const FileContent* ours) const {
  TRY_ASSIGN(const auto path, Resolve(saved.file.path));
  TRY_ASSIGN(const auto now, ReadFileState(path));
  const FileState before = StateOf(saved);
  // A file that is as it was may be one that cannot be written.
  if (now == before || (!now.content && !before.content)) return {};
  if (now.content == before.content || ours == nullptr) {
    return ReplaceFile(path, before, now.content);
  }
  return ReplaceFile(path, before, ours->content);
}

void EngineFileStore::Tidy(const fs::path& path, const EngineChange& change) const {
  if (path.empty()) return;
  const auto file = Resolve(path);
  if (!file) return;
  using Content = std::optional<std::string>;
  // What goes back in a roll-back is written by us as well.
  const auto is_ours = [&](const Content& content) {
    return IsMarked(change.ours, {path, content}) ||
           std::ranges::any_of(change.before, [&](const SavedFile& saved) {
             return saved.file.path == path && saved.file.content == content;
           });
  };
  toolkit::Tidy(*file, {[&](const Content& content) {
                          return is_ours(content) || IsMarked(change.replaced, {path, content});
                        },
                        is_ours});
}

base::Result<std::optional<EngineChange>> ReadEngineChange(const fs::path& state_folder) {
  const auto path = Journal(state_folder);
  const auto text = base::ReadFile(path);
  if (!text && text.error().code == base::Code::kNotFound) return std::nullopt;
  if (!text) return base::Fail(text.error());
  TRY_ASSIGN(const Json json, codec::ParseJson(*text, path.string()));
  try {
    EngineChange change;
    change.restarting = json.at("restarting").get<bool>();
    for (const auto& file : json.at("before")) change.before.push_back(FromJson(file));
    change.ours = MarksFromJson(json, "ours");
    change.replaced = MarksFromJson(json, "replaced");
    return change;
  } catch (const Json::exception& problem) {
    return base::Fail(base::Invalid(
        "InvalidEngineChange",
        fmt::format("{} is not what the toolkit writes there ({}): put the engine's files right by "
                    "hand, then remove it",
                    path.string(), problem.what())));
  }
}

base::Status WriteEngineChange(const fs::path& state_folder, const EngineChange& change) {
  Json before = Json::array();
  for (const auto& saved : change.before) before.push_back(ToJson(saved));
  const Json json = {{"before", std::move(before)},
                     {"ours", MarksToJson(change.ours)},
                     {"replaced", MarksToJson(change.replaced)},
                     {"restarting", change.restarting}};
  const auto path = Journal(state_folder);
  TRY_ASSIGN(const auto now, ReadFileState(path));
  return ReplaceFile(path, {codec::ToJsonText(json), kOwnerOnly, ::geteuid(), ::getegid()},
                     now.content);
}

void TidyEngineChange(const fs::path& state_folder) { RemoveLeftover(Journal(state_folder)); }

base::Status ForgetEngineChange(const fs::path& state_folder) {
  const auto path = Journal(state_folder);
  RemoveLeftover(path);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return base::Fail(base::FromErrno(errno, "remove " + path.string()));
}

}  // namespace pitcrew::node::toolkit
