#include "node/toolkit/configure_engine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/engine_process.h"

namespace pitcrew::node::toolkit {
namespace {

using namespace std::chrono_literals;
using codec::Json;

// A pod that is being deleted has 30 s in all.
constexpr auto kCleanupTime = 20s;

std::filesystem::path RestartMark(const std::filesystem::path& state_folder) {
  return state_folder / "engine-restart-due";
}

base::Result<std::optional<std::string>> ReadIfThere(const std::filesystem::path& path) {
  if (path.empty()) return std::nullopt;
  auto text = base::ReadFile(path);
  if (text) return *std::move(text);
  if (text.error().code == base::Code::kNotFound) return std::nullopt;
  return base::Fail(text.error());
}

base::Result<EngineFiles> ReadEngineFiles(const EngineOptions& options) {
  EngineFiles files;
  TRY_ASSIGN(files.config, ReadIfThere(options.config));
  TRY_ASSIGN(files.drop_in, ReadIfThere(options.drop_in));
  return files;
}

base::Result<Json> LoadFile(const EngineOptions& options, const std::filesystem::path& path) {
  TRY_ASSIGN(const auto text, ReadIfThere(path));
  return ParseEngineConfig(options.kind, text.value_or(""), path.string());
}

base::Status Remove(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return base::Fail(base::FromErrno(errno, "remove " + path.string()));
}

base::Status Put(const FileContent& file) {
  return file.content ? base::WriteFileAtomically(file.path, *file.content, 0644)
                      : Remove(file.path);
}

// The files that differ from what is wanted, with the content that they have now.
base::Result<std::vector<FileContent>> Differing(const std::vector<FileContent>& wanted) {
  std::vector<FileContent> previous;
  for (const auto& file : wanted) {
    TRY_ASSIGN(auto current, ReadIfThere(file.path));
    if (current != file.content) previous.push_back({file.path, std::move(current)});
  }
  return previous;
}

void PutBack(const std::vector<FileContent>& previous) {
  for (const auto& file : previous) {
    if (const auto done = Put(file); !done) {
      base::LogError("A file of the container engine could not be put back", done.error(),
                     {{"file", file.path.string()}});
    }
  }
}

// The engine's dump with the new files must show our runtimes. Where no dump can be had, nothing is
// known and the restart has to tell.
base::Status CheckWithDump(const EngineOptions& options,
                           const std::filesystem::path& toolkit_folder) {
  if (options.kind != EngineKind::kContainerd) return {};
  const auto dump = DumpEngineConfig(options);
  if (!dump && dump.error().reason == "ProgramFailed") {
    return base::Fail(dump.error().Within("the container engine refuses its new configuration"));
  }
  if (!dump) {
    base::LogInfo("The new configuration is not checked by the engine itself",
                  {{"why", dump.error().message}});
    return {};
  }
  TRY_ASSIGN(const Json config, ParseEngineConfig(options.kind, *dump, "the engine's dump"));
  return CheckEffective(options, RuntimesFor(options, toolkit_folder), config);
}

base::Status WriteAndRestart(const EngineOptions& options, const std::vector<FileContent>& wanted,
                             const std::filesystem::path& toolkit_folder,
                             const std::filesystem::path& state_folder, const io::StopToken& stop) {
  for (const auto& file : wanted) TRY(Put(file));
  TRY(CheckWithDump(options, toolkit_folder));
  TRY(base::WriteFileAtomically(RestartMark(state_folder), "", 0600));
  return RestartEngine(options, stop, base::SteadyClock::now() + options.restart_time);
}

// Puts the old files back and lets the engine read them.
void RollBack(const EngineOptions& options, const std::vector<FileContent>& previous,
              const std::filesystem::path& state_folder, const base::Error& why) {
  base::LogError("The container engine's configuration is put back", why);
  PutBack(previous);
  const auto due = base::ReadFile(RestartMark(state_folder));
  if (!due) return;
  // An engine in a restart loop picks the old files up by itself; one that still runs needs another
  // restart only if it came up with the new ones.
  const auto deadline = base::SteadyClock::now() + options.restart_time;
  base::Status restarted = RestartEngine(options, {}, deadline);
  if (restarted) restarted = Remove(RestartMark(state_folder));
  if (restarted) {
    base::LogInfo("The container engine answers again with its old configuration");
  } else {
    base::LogError("The container engine does not answer with its old configuration either",
                   restarted.error());
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
  TRY_ASSIGN(const auto previous, Differing(wanted));
  if (previous.empty()) {
    if (!base::ReadFile(RestartMark(state_folder))) {
      base::LogInfo("The container engine is configured already; it is not restarted",
                    {{"engine", ToString(options.kind)}});
      return {};
    }
    base::LogInfo("A restart of the container engine is still due");
    TRY(RestartEngine(options, stop, base::SteadyClock::now() + options.restart_time));
    return Remove(RestartMark(state_folder));
  }
  for (const auto& file : previous) {
    base::LogInfo("Changing a file of the container engine", {{"file", file.path.string()}});
  }
  const auto done = WriteAndRestart(options, wanted, toolkit_folder, state_folder, stop);
  if (!done) {
    if (done.error().code != base::Code::kCancelled) {
      RollBack(options, previous, state_folder, done.error());
    }
    return done;
  }
  TRY(Remove(RestartMark(state_folder)));
  base::LogInfo("The container engine runs with the NVIDIA runtimes",
                {{"engine", ToString(options.kind)}, {"runtime", options.runtime_name}});
  return {};
}

base::Status RestoreEngine(const EngineOptions& options,
                           const std::filesystem::path& toolkit_folder,
                           const std::filesystem::path& state_folder) {
  TRY_ASSIGN(const EngineFiles files, ReadEngineFiles(options));
  TRY_ASSIGN(const auto wanted, PlanCleanup(options, RuntimesFor(options, toolkit_folder), files));
  TRY_ASSIGN(const auto previous, Differing(wanted));
  if (previous.empty()) return {};
  for (const auto& file : wanted) TRY(Put(file));
  TRY(base::WriteFileAtomically(RestartMark(state_folder), "", 0600));
  TRY(RestartEngine(options, {}, base::SteadyClock::now() + kCleanupTime));
  base::LogInfo("The NVIDIA runtimes are out of the container engine's configuration");
  return Remove(RestartMark(state_folder));
}

}  // namespace pitcrew::node::toolkit
