#include "node/toolkit/configure_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "node/toolkit/crio.h"
#include "node/toolkit/distribution.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/engine_checks.h"
#include "node/toolkit/engine_files.h"
#include "node/toolkit/engine_process.h"
#include "node/toolkit/original_files.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

// A file that changes more often than that is under somebody's work.
constexpr int kMostAttempts = 3;

// The engine's files, read once: what is planned is planned on what would be put back.
struct FilesNow {
  EngineFiles texts;
  std::vector<SavedFile> saved;
};

base::Result<FilesNow> ReadFiles(const EngineOptions& options) {
  const EngineFileStore store(options.host_root);
  FilesNow now;
  for (const auto& [path, text] : {std::pair(options.config, &now.texts.config),
                                   std::pair(options.drop_in, &now.texts.drop_in),
                                   std::pair(options.hook.file, &now.texts.hook)}) {
    if (path.empty()) continue;
    TRY_ASSIGN(auto saved, store.Save(path));
    *text = saved.file.content;
    if (text == &now.texts.config && saved.file.content) now.texts.config_mode = saved.mode;
    now.saved.push_back(std::move(saved));
  }
  return now;
}

base::Result<Json> LoadFile(const EngineOptions& options, const std::filesystem::path& path) {
  TRY_ASSIGN(const auto text, EngineFileStore(options.host_root).Read(path));
  return ParseEngineConfig(options.kind, text.value_or(""), path.string());
}

// The wanted files that differ from what is there, and those as they are.
struct Difference {
  std::vector<FileContent> wanted;
  std::vector<SavedFile> now;
};

Difference Compare(const std::vector<FileContent>& wanted, const std::vector<SavedFile>& saved) {
  Difference difference;
  for (const auto& file : wanted) {
    for (const auto& now : saved) {
      if (file.path != now.file.path || !Differs(file, now)) continue;
      difference.wanted.push_back(file);
      difference.now.push_back(now);
    }
  }
  return difference;
}

void NoteMark(const FileContent& file, std::vector<ContentMark>& marks) {
  if (!IsMarked(marks, file)) marks.push_back(MarkOf(file));
}

void NoteMarks(const Difference& difference, EngineChange& change) {
  for (const auto& file : difference.wanted) NoteMark(file, change.ours);
  for (const auto& saved : difference.now) NoteMark(saved.file, change.replaced);
}

// What a killed run before this one has noted stays while its own files are there: it has them as
// they were before both. Where somebody has changed one since, theirs is what goes back.
void NoteFiles(const std::vector<SavedFile>& files, const Difference& difference,
               EngineChange& change) {
  for (auto& before : change.before) {
    const auto now = std::ranges::find_if(
        files, [&](const SavedFile& one) { return one.file.path == before.file.path; });
    if (now == files.end()) continue;
    const bool told =
        std::ranges::find(change.ours, before.file.path, &ContentMark::path) != change.ours.end();
    const bool is_theirs = told && !IsMarked(change.ours, now->file);
    if (is_theirs || now->file.content == before.file.content) before = *now;
  }
  for (const auto& saved : difference.now) {
    const bool noted = std::ranges::any_of(change.before, [&](const SavedFile& before) {
      return before.file.path == saved.file.path;
    });
    if (!noted) change.before.push_back(saved);
  }
  NoteMarks(difference, change);
}

// What `wanted` says of a file; nullptr when it says nothing.
const FileContent* Find(const std::vector<FileContent>& wanted, const std::filesystem::path& path) {
  const auto found = std::ranges::find(wanted, path, &FileContent::path);
  return found == wanted.end() ? nullptr : &*found;
}

// The last error, when a file could not be put back. One that is none of `ours` now, nor what
// `wanted` says, was changed by somebody since, and stays.
base::Status PutBack(const EngineFileStore& store, const std::vector<SavedFile>& before,
                     const std::vector<FileContent>& wanted,
                     const std::vector<ContentMark>& ours = {}) {
  base::Status all;
  for (const auto& saved : before) {
    const auto now = store.Save(saved.file.path);
    const bool is_ours = now && IsMarked(ours, now->file);
    const auto done = store.PutBack(saved, is_ours ? &now->file : Find(wanted, saved.file.path));
    if (done) continue;
    base::LogError("A file of the container engine could not be put back", done.error(),
                   {{"file", saved.file.path.string()}});
    if (done.error().code != base::Code::kConflict) all = done;
  }
  return all;
}

// Takes away what a killed toolkit has left beside its files. Returns its change, if it was not
// through.
base::Result<std::optional<EngineChange>> Tidy(const EngineOptions& options,
                                               const std::filesystem::path& state_folder) {
  TidyEngineChange(state_folder);
  TRY_ASSIGN(auto unfinished, ReadEngineChange(state_folder));
  const EngineFileStore store(options.host_root);
  for (const auto& path : {options.config, options.drop_in, options.hook.file}) {
    store.Tidy(path, unfinished.value_or(EngineChange()));
  }
  return unfinished;
}

// The files as they are `now`, each replaced by what is wanted of it.
base::Status PutAll(const EngineFileStore& store, const Difference& difference) {
  for (std::size_t i = 0; i < difference.wanted.size(); ++i) {
    base::LogInfo("Changing a file of the container engine",
                  {{"file", difference.wanted[i].path.string()}});
    TRY(store.Put(difference.wanted[i], difference.now[i]));
  }
  return {};
}

std::vector<OriginalFile> KnownOriginals(const EngineOptions& options) {
  if (options.originals.empty()) return {};
  auto known = ReadOriginals(options.originals);
  if (known) return *std::move(known);
  base::LogWarning("It is not known what the engine's files were before the toolkit came",
                   known.error());
  return {};
}

base::Status KeepOriginals(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                           const FilesNow& files, const std::vector<FileContent>& wanted) {
  if (options.originals.empty()) return {};
  TRY_ASSIGN(auto cleaned, PlanCleanup(options, runtimes, files.texts));
  for (auto& file : cleaned) {
    // The drop-in is written first: without one, a root file that only imports is not ours either.
    const bool is_root = options.kind == EngineKind::kContainerd && file.path == options.config;
    if (is_root && !files.texts.drop_in && !file.content) file.content = files.texts.config;
  }
  const auto known = KnownOriginals(options);
  const auto noted = NoteOriginals(known, files.saved, cleaned, wanted);
  return noted == known ? base::Status() : WriteOriginals(options.originals, noted);
}

base::Status ForgetOriginals(const EngineOptions& options) {
  return options.originals.empty() ? base::Status() : WriteOriginals(options.originals, {});
}

// CRI-O neither enters, stops nor removes a container whose runtime it does not know any more: the
// pod would never end. Its drop-in stays, without us as the default (container-toolkit.md 4.16).
bool HasToStay(const EngineOptions& options, const OriginalFile& original) {
  return options.kind == EngineKind::kCrio && original.path == options.drop_in && !original.exists;
}

// The files that nobody but us has changed are wanted as they were before us. Returns those.
std::vector<SavedFile> WantOriginals(const EngineOptions& options,
                                     const std::vector<SavedFile>& now,
                                     std::vector<FileContent>& wanted) {
  const auto known = KnownOriginals(options);
  std::vector<SavedFile> originals;
  for (auto& file : wanted) {
    const auto saved =
        std::ranges::find_if(now, [&](const SavedFile& one) { return one.file.path == file.path; });
    const auto original = std::ranges::find(known, file.path, &OriginalFile::path);
    if (saved == now.end() || !saved->file.content || original == known.end()) continue;
    if (HasToStay(options, *original)) continue;
    auto before = GoBack(*original, *saved->file.content);
    if (!before) continue;
    file.content = before->file.content;
    originals.push_back(*std::move(before));
  }
  return originals;
}

// As PutAll. Originals with the mode and the owner that they had.
base::Status PutAllBack(const EngineFileStore& store, const Difference& difference,
                        const std::vector<SavedFile>& originals) {
  Difference others;
  for (std::size_t i = 0; i < difference.wanted.size(); ++i) {
    const auto original = std::ranges::find_if(originals, [&](const SavedFile& one) {
      return one.file.path == difference.wanted[i].path;
    });
    if (original == originals.end()) {
      others.wanted.push_back(difference.wanted[i]);
      others.now.push_back(difference.now[i]);
      continue;
    }
    base::LogInfo("A file of the container engine is again what it was",
                  {{"file", original->file.path.string()}});
    TRY(store.PutBack(*original, &difference.now[i].file));
  }
  return PutAll(store, others);
}

// The restart that follows a change of files. Made before the change: a distribution that follows
// its files may be quicker than we are.
class Restart {
 public:
  explicit Restart(const EngineOptions& options) : options_(options) {
    if (options.restart != RestartMode::kByDistribution) return;
    auto engine = FindEngine(options.socket);
    if (!engine) return;
    // containerd that is told to end waits two minutes for a connection that says nothing.
    if (engine->handle.valid()) engine->connection = {};
    before_ = *std::move(engine);
  }
  [[nodiscard]] base::Status Run(const io::StopToken& stop,
                                 base::SteadyClock::time_point deadline) const {
    return before_ ? AwaitNextEngine(options_, *before_, stop, deadline)
                   : RestartEngine(options_, stop, deadline);
  }

 private:
  const EngineOptions& options_;
  std::optional<EngineProcess> before_;
};

// `change` is on disk before the first file changes, and before the engine is told.
base::Status WriteAndRestart(const EngineOptions& options, const Difference& difference,
                             const std::filesystem::path& toolkit_folder,
                             const std::filesystem::path& state_folder, EngineChange& change,
                             const io::StopToken& stop) {
  const Restart restart(options);
  TRY(PutAll(EngineFileStore(options.host_root), difference));
  const auto runtimes = RuntimesFor(options, toolkit_folder);
  // It may have restarted the engine since a killed toolkit wrote.
  if (options.restart == RestartMode::kByDistribution && difference.wanted.empty() &&
      CheckRunning(options, runtimes, stop, base::SteadyClock::now() + options.restart_time)) {
    return {};
  }
  TRY(CheckFiles(options, runtimes));
  change.restarting = true;
  TRY(WriteEngineChange(state_folder, change));
  const auto deadline = base::SteadyClock::now() + options.restart_time;
  TRY(restart.Run(stop, deadline));
  return CheckRunning(options, runtimes, stop, deadline);
}

// Files that the engine follows by itself: nothing is restarted, and whatever step a kill falls on,
// each file is an old one or a new one.
base::Status WriteFollowed(const EngineOptions& options, const Difference& difference,
                           const std::vector<Runtime>& runtimes) {
  const EngineFileStore store(options.host_root);
  auto done = PutAll(store, difference);
  if (done) done = CheckFiles(options, runtimes);
  if (!done) (void)PutBack(store, difference.now, difference.wanted);
  return done;
}

bool NeedsRestart(const Difference& difference) {
  return !std::ranges::all_of(difference.wanted, &FileContent::is_followed);
}

// Puts the old files back and lets the engine read them.
void RollBack(const EngineOptions& options, const EngineChange& change,
              const std::vector<FileContent>& wanted, const std::filesystem::path& state_folder,
              const base::Error& why) {
  base::LogError("The container engine's configuration is put back", why);
  const Restart restart(options);
  // The journal stays for the next process where something is left to put back.
  if (!PutBack(EngineFileStore(options.host_root), change.before, wanted, change.ours)) return;
  base::Status done;
  if (change.restarting && !change.before.empty()) {
    // An engine in a restart loop picks the old files up by itself; one that still runs needs
    // another restart only if it came up with the new ones.
    done = restart.Run({}, base::SteadyClock::now() + options.restart_time);
    if (done) base::LogInfo("The container engine answers again with its old configuration");
  }
  if (done) done = ForgetEngineChange(state_folder);
  if (!done) {
    base::LogError("The container engine does not answer with its old configuration either",
                   done.error());
  }
}

}  // namespace

base::Result<Json> ReadEngineConfig(const EngineOptions& options) {
  for (const auto& item : options.config_sources) {
    const auto equals = item.find('=');
    const std::string name(base::Trim(item.substr(0, equals)));
    const std::string argument(
        equals == std::string::npos ? "" : std::string(base::Trim(item.substr(equals + 1))));
    base::Result<Json> loaded = Json::object();
    if (name == "file") {
      // CRI-O's root file is one of several, and need not be there.
      loaded = argument.empty() && options.kind == EngineKind::kCrio ? ReadCrioFiles(options)
               : argument.empty() ? LoadFile(options, options.config)
                                  : LoadFile(options, argument);
    } else if (name == "command") {
      const auto dump = DumpEngineConfig(options);
      loaded = dump ? ParseEngineConfig(options.kind, *dump, "the engine's configuration dump")
                    : base::Result<Json>(base::Fail(dump.error()));
    } else {
      return base::Fail(base::Invalid(
          "BadUsage",
          fmt::format("configuration source \"{}\" is none of command, file, file=PATH", item)));
    }
    if (loaded) {
      base::LogInfo("Read the container engine's configuration", {{"source", item}});
      const auto root = LoadFile(options, options.config);
      if (root && HasDefaultOfTheNode(options, *root)) return loaded;
      return WithDefaultBeforeOurs(options, *std::move(loaded));
    }
    base::LogWarning(
        "This source of the container engine's configuration does not load; trying the next",
        loaded.error(), {{"source", item}});
  }
  return Json::object();
}

namespace {

base::Status ConfigureOnce(const EngineOptions& options, const Json& source,
                           const std::filesystem::path& toolkit_folder,
                           const std::filesystem::path& state_folder, const io::StopToken& stop) {
  TRY_ASSIGN(const auto unfinished, Tidy(options, state_folder));
  TRY_ASSIGN(const FilesNow files, ReadFiles(options));
  TRY_ASSIGN(const auto wanted,
             PlanSetup(options, RuntimesFor(options, toolkit_folder), source, files.texts));
  const auto difference = Compare(wanted, files.saved);
  TRY_ASSIGN(const bool has_to_look,
             HasToLook(options, RuntimesFor(options, toolkit_folder), files.texts));
  if (difference.wanted.empty() && !unfinished && !has_to_look) {
    base::LogInfo("The container engine is configured already; it is not restarted",
                  {{"engine", ToString(options.kind)}});
    return {};
  }
  TRY(KeepOriginals(options, RuntimesFor(options, toolkit_folder), files, wanted));
  if (!unfinished && !has_to_look && !NeedsRestart(difference)) {
    return WriteFollowed(options, difference, RuntimesFor(options, toolkit_folder));
  }
  if (unfinished) {
    base::LogInfo("A change of the container engine's configuration was not finished; going on");
  }
  EngineChange change = unfinished.value_or(EngineChange{});
  NoteFiles(files.saved, difference, change);
  TRY(WriteEngineChange(state_folder, change));
  const auto done =
      WriteAndRestart(options, difference, toolkit_folder, state_folder, change, stop);
  if (!done) {
    if (done.error().code != base::Code::kCancelled) {
      RollBack(options, change, wanted, state_folder, done.error());
    }
    return done;
  }
  TRY(ForgetEngineChange(state_folder));
  base::LogInfo("The container engine runs with the NVIDIA runtimes",
                {{"engine", ToString(options.kind)}, {"runtime", options.runtime_name}});
  return {};
}

base::Status RestoreOnce(const EngineOptions& options, const std::filesystem::path& toolkit_folder,
                         const std::filesystem::path& state_folder, base::Deadline deadline) {
  TRY_ASSIGN(const auto unfinished, Tidy(options, state_folder));
  const EngineFileStore store(options.host_root);
  TRY_ASSIGN(const FilesNow files, ReadFiles(options));
  TRY_ASSIGN(auto wanted, PlanCleanup(options, RuntimesFor(options, toolkit_folder), files.texts));
  const auto originals = WantOriginals(options, files.saved, wanted);
  const auto difference = Compare(wanted, files.saved);
  if (difference.wanted.empty() && !unfinished) return ForgetOriginals(options);
  if (!unfinished && !NeedsRestart(difference)) {
    TRY(PutAllBack(store, difference, originals));
    return ForgetOriginals(options);
  }
  // Nothing to put back: whoever starts after a kill either goes on here or configures anew.
  EngineChange change{.before = {}, .restarting = true};
  NoteMarks(difference, change);
  TRY(WriteEngineChange(state_folder, change));
  const Restart restart(options);
  TRY(PutAllBack(store, difference, originals));
  if (options.restart != RestartMode::kByDistribution || !difference.wanted.empty()) {
    TRY(restart.Run({}, deadline.at()));
  }
  base::LogInfo("The NVIDIA runtimes are out of the container engine's configuration");
  TRY(ForgetOriginals(options));
  return ForgetEngineChange(state_folder);
}

// Another writer came in between: from its files once more.
bool HasToTryAgain(const base::Status& done, int attempt) {
  if (done || done.error().code != base::Code::kConflict || attempt == kMostAttempts) return false;
  base::LogInfo("A file of the container engine changed meanwhile; beginning again",
                {{"why", done.error().message}});
  return true;
}

}  // namespace

base::Status ConfigureEngine(const EngineOptions& options, const Json& source,
                             const std::filesystem::path& toolkit_folder,
                             const std::filesystem::path& state_folder, const io::StopToken& stop) {
  auto done = ConfigureOnce(options, source, toolkit_folder, state_folder, stop);
  for (int attempt = 1; HasToTryAgain(done, attempt); ++attempt) {
    TRY_ASSIGN(const Json fresh, ReadEngineConfig(options));
    done = ConfigureOnce(options, fresh, toolkit_folder, state_folder, stop);
  }
  return done;
}

base::Status RestoreEngine(const EngineOptions& options,
                           const std::filesystem::path& toolkit_folder,
                           const std::filesystem::path& state_folder, base::Deadline deadline) {
  auto done = RestoreOnce(options, toolkit_folder, state_folder, deadline);
  for (int attempt = 1; HasToTryAgain(done, attempt); ++attempt) {
    done = RestoreOnce(options, toolkit_folder, state_folder, deadline);
  }
  return done;
}

}  // namespace pitcrew::node::toolkit
