#include "node/toolkit/configure_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "node/toolkit/distribution.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/engine_checks.h"
#include "node/toolkit/engine_files.h"
#include "node/toolkit/engine_process.h"

namespace pitcrew::node::toolkit {
namespace {

using namespace std::chrono_literals;
using codec::Json;

// A pod that is being deleted has 30 s in all.
constexpr auto kCleanupTime = 20s;

base::Result<EngineFiles> ReadEngineFiles(const EngineOptions& options) {
  const EngineFileStore store(options.host_root);
  EngineFiles files;
  TRY_ASSIGN(files.config, store.Read(options.config));
  TRY_ASSIGN(files.drop_in, store.Read(options.drop_in));
  TRY_ASSIGN(files.hook, store.Read(options.hook.file));
  return files;
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

base::Result<Difference> Compare(const EngineFileStore& store,
                                 const std::vector<FileContent>& wanted) {
  Difference difference;
  for (const auto& file : wanted) {
    TRY_ASSIGN(auto now, store.SaveIfDifferent(file));
    if (!now) continue;
    difference.wanted.push_back(file);
    difference.now.push_back(*std::move(now));
  }
  return difference;
}

// What a killed run before this one has noted stays: it has the files as they were before both.
void NoteFiles(const std::vector<SavedFile>& now, EngineChange& change) {
  for (const auto& saved : now) {
    const bool noted = std::ranges::any_of(change.before, [&](const SavedFile& before) {
      return before.file.path == saved.file.path;
    });
    if (!noted) change.before.push_back(saved);
  }
}

void PutBack(const EngineFileStore& store, const std::vector<SavedFile>& before) {
  for (const auto& saved : before) {
    if (const auto done = store.PutBack(saved); !done) {
      base::LogError("A file of the container engine could not be put back", done.error(),
                     {{"file", saved.file.path.string()}});
    }
  }
}

// `change` is on disk before the first file changes, and before the engine is told.
base::Status WriteAndRestart(const EngineOptions& options, const std::vector<FileContent>& wanted,
                             const std::filesystem::path& toolkit_folder,
                             const std::filesystem::path& state_folder, EngineChange& change,
                             const io::StopToken& stop) {
  const EngineFileStore store(options.host_root);
  for (const auto& file : wanted) {
    base::LogInfo("Changing a file of the container engine", {{"file", file.path.string()}});
    TRY(store.Put(file));
  }
  const auto runtimes = RuntimesFor(options, toolkit_folder);
  // It may have restarted the engine since a killed toolkit wrote.
  if (options.restart == RestartMode::kByDistribution && wanted.empty() &&
      CheckRunning(options, runtimes, stop, base::SteadyClock::now() + options.restart_time)) {
    return {};
  }
  TRY(CheckFiles(options, runtimes));
  change.restarting = true;
  TRY(WriteEngineChange(state_folder, change));
  const auto deadline = base::SteadyClock::now() + options.restart_time;
  TRY(RestartEngine(options, stop, deadline));
  return CheckRunning(options, runtimes, stop, deadline);
}

// Files that the engine follows by itself: nothing is restarted, and whatever step a kill falls on,
// each file is an old one or a new one.
base::Status WriteFollowed(const EngineOptions& options, const Difference& difference,
                           const std::vector<Runtime>& runtimes) {
  const EngineFileStore store(options.host_root);
  base::Status done;
  for (const auto& file : difference.wanted) {
    base::LogInfo("Changing a file that the container engine follows",
                  {{"file", file.path.string()}});
    done = store.Put(file);
    if (!done) break;
  }
  if (done) done = CheckFiles(options, runtimes);
  if (!done) PutBack(store, difference.now);
  return done;
}

bool NeedsRestart(const Difference& difference) {
  return !std::ranges::all_of(difference.wanted, &FileContent::is_followed);
}

// Puts the old files back and lets the engine read them.
void RollBack(const EngineOptions& options, const EngineChange& change,
              const std::filesystem::path& state_folder, const base::Error& why) {
  base::LogError("The container engine's configuration is put back", why);
  PutBack(EngineFileStore(options.host_root), change.before);
  base::Status done;
  if (change.restarting && !change.before.empty()) {
    // An engine in a restart loop picks the old files up by itself; one that still runs needs
    // another restart only if it came up with the new ones.
    done = RestartEngine(options, {}, base::SteadyClock::now() + options.restart_time);
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
      loaded =
          LoadFile(options, argument.empty() ? options.config : std::filesystem::path(argument));
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
      return loaded;
    }
    base::LogWarning(
        "This source of the container engine's configuration does not load; trying the next",
        loaded.error(), {{"source", item}});
  }
  return Json::object();
}

base::Status ConfigureEngine(const EngineOptions& options, const Json& source,
                             const std::filesystem::path& toolkit_folder,
                             const std::filesystem::path& state_folder, const io::StopToken& stop) {
  TRY_ASSIGN(const EngineFiles files, ReadEngineFiles(options));
  TRY_ASSIGN(const auto wanted,
             PlanSetup(options, RuntimesFor(options, toolkit_folder), source, files));
  TRY_ASSIGN(const auto difference, Compare(EngineFileStore(options.host_root), wanted));
  TRY_ASSIGN(const auto unfinished, ReadEngineChange(state_folder));
  TRY_ASSIGN(const bool has_to_look,
             HasToLook(options, RuntimesFor(options, toolkit_folder), files));
  if (difference.wanted.empty() && !unfinished && !has_to_look) {
    base::LogInfo("The container engine is configured already; it is not restarted",
                  {{"engine", ToString(options.kind)}});
    return {};
  }
  if (!unfinished && !has_to_look && !NeedsRestart(difference)) {
    return WriteFollowed(options, difference, RuntimesFor(options, toolkit_folder));
  }
  if (unfinished) {
    base::LogInfo("A change of the container engine's configuration was not finished; going on");
  }
  EngineChange change = unfinished.value_or(EngineChange{});
  NoteFiles(difference.now, change);
  TRY(WriteEngineChange(state_folder, change));
  const auto done =
      WriteAndRestart(options, difference.wanted, toolkit_folder, state_folder, change, stop);
  if (!done) {
    if (done.error().code != base::Code::kCancelled) {
      RollBack(options, change, state_folder, done.error());
    }
    return done;
  }
  TRY(ForgetEngineChange(state_folder));
  base::LogInfo("The container engine runs with the NVIDIA runtimes",
                {{"engine", ToString(options.kind)}, {"runtime", options.runtime_name}});
  return {};
}

base::Status RestoreEngine(const EngineOptions& options,
                           const std::filesystem::path& toolkit_folder,
                           const std::filesystem::path& state_folder) {
  const EngineFileStore store(options.host_root);
  TRY_ASSIGN(const EngineFiles files, ReadEngineFiles(options));
  TRY_ASSIGN(const auto wanted, PlanCleanup(options, RuntimesFor(options, toolkit_folder), files));
  TRY_ASSIGN(const auto difference, Compare(store, wanted));
  TRY_ASSIGN(const auto unfinished, ReadEngineChange(state_folder));
  if (difference.wanted.empty() && !unfinished) return {};
  if (!unfinished && !NeedsRestart(difference)) {
    for (const auto& file : difference.wanted) TRY(store.Put(file));
    return {};
  }
  // Nothing to put back: whoever starts after a kill either goes on here or configures anew.
  TRY(WriteEngineChange(state_folder, {.before = {}, .restarting = true}));
  for (const auto& file : difference.wanted) TRY(store.Put(file));
  if (options.restart != RestartMode::kByDistribution || !difference.wanted.empty()) {
    TRY(RestartEngine(options, {}, base::SteadyClock::now() + kCleanupTime));
  }
  base::LogInfo("The NVIDIA runtimes are out of the container engine's configuration");
  return ForgetEngineChange(state_folder);
}

}  // namespace pitcrew::node::toolkit
