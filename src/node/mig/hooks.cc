#include "node/mig/hooks.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/file.h"
#include "base/strings.h"
#include "codec/config_reader.h"
#include "codec/yaml.h"
#include "host/process.h"
#include "host/root.h"

namespace pitcrew::node::mig {
namespace {

base::Error Invalid(base::Error error) {
  error.reason = "InvalidHooks";
  return error;
}

base::Status ReadVariables(const codec::ConfigReader& reader,
                           std::map<std::string, std::string>& variables) {
  const auto* envs = reader.Find("envs");
  if (envs == nullptr) return {};
  if (!envs->is_object()) return reader.Wrong("envs", "must be a mapping of names to texts");
  for (const auto& [name, value] : envs->items()) {
    if (!value.is_string()) {
      return reader.Wrong("envs", fmt::format("needs a text for \"{}\"; write it in quotes", name));
    }
    variables[name] = value.get<std::string>();
  }
  return {};
}

base::Result<Hook> ReadHook(const codec::ConfigReader& reader) {
  Hook hook;
  TRY(reader.Read("command", hook.command));
  TRY(reader.Read("args", hook.arguments));
  TRY(ReadVariables(reader, hook.environment));
  TRY(reader.Read("workdir", hook.working_folder));
  return hook;
}

base::Result<Hooks> ReadHooks(const codec::ConfigDocument& document) {
  Hooks hooks;
  if (document.empty()) return hooks;
  TRY_ASSIGN(const auto root, document.Root());
  TRY(root.Read("version", hooks.version));
  TRY_ASSIGN(const auto by_name, root.Object("hooks"));
  const auto* names = root.Find("hooks");
  if (names == nullptr) return hooks;
  for (const auto& [name, list] : names->items()) {
    TRY_ASSIGN(const auto readers, by_name.List(name));
    auto& entries = hooks.by_name[name];
    for (const auto& reader : readers) {
      TRY_ASSIGN(auto hook, ReadHook(reader));
      entries.push_back(std::move(hook));
    }
  }
  return hooks;
}

// As a shell finds it: a name without a slash in $PATH.
base::Result<std::string> FindCommand(const std::string& command) {
  if (command.empty()) {
    return base::Fail(base::Invalid("InvalidHooks", "a hook has no 'command'"));
  }
  if (command.find('/') != std::string::npos) return command;
  const char* path = std::getenv("PATH");
  for (const auto& folder : base::Split(path == nullptr ? "" : path, ':')) {
    const auto candidate = std::filesystem::path(folder) / command;
    std::error_code error;
    const auto status = std::filesystem::status(candidate, error);
    using std::filesystem::perms;
    const auto executable = perms::owner_exec | perms::group_exec | perms::others_exec;
    if (!folder.empty() && std::filesystem::is_regular_file(status) &&
        (status.permissions() & executable) != perms::none) {
      return candidate.string();
    }
  }
  return base::Fail(
      base::NotFound("NoSuchProgram",
                     fmt::format("there is no program {} in $PATH; name it by its path", command)));
}

base::Status RunHook(const Hook& hook, const std::map<std::string, std::string>& environment,
                     bool show_output) {
  host::ProgramRun run;
  TRY_ASSIGN(run.program, FindCommand(hook.command));
  run.arguments = hook.arguments;
  run.environment = hook.environment;
  for (const auto& [name, value] : environment) run.environment[name] = value;
  run.inherit_environment = false;
  run.working_folder = hook.working_folder;
  run.capture_output = !show_output;
  TRY_ASSIGN(const auto end, host::RunProgram(run));
  if (end.exit_status == 0) return {};
  return base::Fail(base::Internal(
      "HookFailed", fmt::format("{} ended with status {}{}", run.program, end.exit_status,
                                end.error_output.empty()
                                    ? std::string(show_output ? "" : "; --debug shows its output")
                                    : fmt::format(": {}", base::Trim(end.error_output)))));
}

}  // namespace

base::Result<Hooks> ParseHooks(std::string_view text, std::string_view source) {
  auto document = codec::ConfigDocument::Parse(text, source);
  if (!document) return base::Fail(Invalid(document.error()));
  auto hooks = ReadHooks(*document);
  if (!hooks) return base::Fail(Invalid(hooks.error()));
  return hooks;
}

base::Result<Hooks> LoadHooks(const std::filesystem::path& file) {
  TRY_ASSIGN(const auto text, base::ReadFile(file));
  return ParseHooks(text, file.string());
}

std::string ToYamlText(const Hooks& hooks) {
  codec::Json document = {{"version", hooks.version}, {"hooks", codec::Json::object()}};
  for (const auto& [name, entries] : hooks.by_name) {
    auto& list = document["hooks"][name] = codec::Json::array();
    for (const auto& hook : entries) {
      list.push_back({{"command", hook.command},
                      {"args", hook.arguments},
                      {"envs", hook.environment},
                      {"workdir", hook.working_folder}});
    }
  }
  return codec::ToYamlText(document);
}

base::Status RunHooks(const Hooks& hooks, std::string_view name,
                      const std::map<std::string, std::string>& environment, bool show_output) {
  const auto found = hooks.by_name.find(std::string(name));
  if (found == hooks.by_name.end()) return {};
  for (const auto& hook : found->second) {
    if (const auto run = RunHook(hook, environment, show_output); !run) {
      return base::Fail(run.error().Within(fmt::format("error running {} hook", name)));
    }
  }
  return {};
}

}  // namespace pitcrew::node::mig
