#include "node/mig_parted/command.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdio>
#include <exception>

#include "base/file.h"
#include "base/log.h"
#include "node/mig/change.h"
#include "node/mig/checkpoint.h"
#include "node/mig/configuration.h"
#include "node/mig/export.h"
#include "node/mig/hooks.h"
#include "node/mig/node_gpus.h"
#include "node/mig/plan.h"
#include "node/mig_parted/options.h"

namespace pitcrew::node::mig_parted {
namespace {

using base::CommandLine;

// What a subcommand works with.
struct Run {
  const base::SubcommandCall& call;
  mig::NodeGpus& node;

  [[nodiscard]] std::string Text(std::string_view flag) const { return call.Text(flag); }
  [[nodiscard]] bool mode_only() const { return call.Switch("mode-only"); }
};

void PrintLine(std::string_view text) { fmt::print("{}\n", text); }

// The file's configuration that is meant.
base::Result<mig::NamedConfig> SelectedConfig(const Run& run) {
  const auto configuration = mig::LoadConfiguration(run.Text("config-file"));
  if (!configuration) {
    return base::Fail(configuration.error().Within("error parsing config file"));
  }
  const auto selected = mig::SelectConfig(*configuration, run.Text("selected-config"));
  if (!selected) return base::Fail(selected.error().Within("error selecting MIG config"));
  return **selected;
}

base::Result<mig::Checkpoint> SavedCheckpoint(const Run& run) {
  auto checkpoint = mig::LoadCheckpoint(run.Text("checkpoint-file"));
  if (!checkpoint) return base::Fail(checkpoint.error().Within("error parsing checkpoint file"));
  return checkpoint;
}

void TellRemarks(const mig::Plan& plan) {
  for (const auto& remark : plan.remarks) base::LogWarning(remark);
}

// What cannot be is refused before a hook stops anything. A node that cannot be read now may be
// readable behind the hooks.
base::Status RefuseImpossible(mig::NodeGpus& node, const mig::Planner& planner) {
  const auto gpus = node.Read();
  if (!gpus) return {};
  const auto plan = planner(*gpus);
  node.Close();
  if (!plan) return base::Fail(plan.error());
  TellRemarks(*plan);
  return {};
}

// The order of hooks and changes of apply and restore (mig-manager.md section 2.3).
base::Status ApplyWithHooks(const Run& run, const mig::Planner& planner) {
  mig::Hooks hooks;
  if (!run.Text("hooks-file").empty()) {
    auto loaded = mig::LoadHooks(run.Text("hooks-file"));
    if (!loaded) return base::Fail(loaded.error().Within("error parsing hooks file"));
    hooks = *std::move(loaded);
  }
  const auto run_hooks = [&](std::string_view name) {
    return mig::RunHooks(hooks, name, run.call.variables, run.call.debug);
  };
  TRY(RefuseImpossible(run.node, planner));
  TRY(run_hooks(mig::kApplyStart));
  mig::ChangeOptions change;
  change.journal = run.Text("journal-file");
  change.mode_only = run.mode_only();
  change.skip_reset = run.call.Switch("skip-reset");
  change.before_modes = [&] { return run_hooks(mig::kPreApplyMode); };
  change.before_instances = [&] { return run_hooks(mig::kPreApplyConfig); };
  const auto applied = mig::Apply(run.node, planner, change);
  const auto exited = run_hooks(mig::kApplyExit);
  if (!applied && !exited) base::LogError("the hooks behind the change failed too", exited.error());
  if (!applied) return base::Fail(applied.error());
  if (applied->needs_reset)
    base::LogWarning("a MIG mode waits for a reset of its GPU, or a reboot");
  return exited;
}

base::Status Wrapped(base::Status applied) {
  if (applied) return applied;
  return base::Fail(applied.error().Within("error applying MIG configuration with hooks"));
}

base::Status Apply(const Run& run) {
  TRY_ASSIGN(const auto config, SelectedConfig(run));
  const bool mode_only = run.mode_only();
  const mig::Planner planner = [&](const std::vector<mig::Gpu>& gpus) {
    return mig::PlanConfig(gpus, config, mode_only);
  };
  TRY(Wrapped(ApplyWithHooks(run, planner)));
  PrintLine("MIG configuration applied successfully");
  return {};
}

base::Status Assert(const Run& run) {
  TRY_ASSIGN(const auto config, SelectedConfig(run));
  if (run.call.Switch("valid-config")) {
    PrintLine("Selected MIG configuration is valid");
    return {};
  }
  const auto check = [&]() -> base::Status {
    TRY_ASSIGN(const auto gpus, run.node.Read());
    TRY(mig::AssertModes(gpus, config));
    return run.mode_only() ? base::Status() : mig::AssertConfig(gpus, config);
  };
  if (const auto checked = check(); !checked) {
    return base::Fail(
        checked.error().Within("assertion failure: selected configuration not currently applied"));
  }
  PrintLine(run.mode_only() ? "Selected MIG mode settings from configuration currently applied"
                            : "Selected MIG configuration currently applied");
  return {};
}

std::string TextOf(const mig::Configuration& configuration, const std::string& format) {
  return format == "json" ? mig::ToJsonText(configuration) : mig::ToYamlText(configuration);
}

base::Status Export(const Run& run) {
  TRY_ASSIGN(const auto gpus, run.node.Read());
  TRY_ASSIGN(const auto configuration, mig::ExportConfiguration(gpus, run.Text("config-label")));
  fmt::print("{}", TextOf(configuration, run.Text("output-format")));
  return {};
}

base::Status GenerateConfig(const Run& run) {
  TRY_ASSIGN(const auto gpus, run.node.Read());
  TRY_ASSIGN(const auto boards, mig::DiscoverProfiles(gpus));
  const auto text = TextOf(mig::GenerateConfiguration(boards), run.Text("output-format"));
  if (!run.Text("output-file").empty()) {
    return base::WriteFileAtomically(run.Text("output-file"), text);
  }
  fmt::print("{}", text);
  return {};
}

base::Status Checkpoint(const Run& run) {
  TRY_ASSIGN(const auto gpus, run.node.Read());
  TRY_ASSIGN(const auto checkpoint, mig::MakeCheckpoint(gpus));
  TRY(base::WriteFileAtomically(run.Text("checkpoint-file"), mig::ToJsonText(checkpoint)));
  PrintLine("MIG configuration checkpointed successfully");
  return {};
}

base::Status Restore(const Run& run) {
  TRY_ASSIGN(const auto checkpoint, SavedCheckpoint(run));
  const bool mode_only = run.mode_only();
  const mig::Planner planner = [&](const std::vector<mig::Gpu>& gpus) {
    return mig::PlanCheckpoint(gpus, checkpoint, mode_only);
  };
  TRY(Wrapped(ApplyWithHooks(run, planner)));
  PrintLine("MIG configuration restored successfully");
  return {};
}

base::Status Recover(const Run& run) {
  TRY_ASSIGN(const bool was_cut_off, mig::WasCutOff(run.Text("journal-file")));
  if (!was_cut_off) {
    PrintLine("No MIG change was cut off");
    return {};
  }
  mig::ChangeOptions change;
  change.journal = run.Text("journal-file");
  TRY(mig::Recover(run.node, change));
  PrintLine("MIG configuration before the change that was cut off restored successfully");
  return {};
}

struct Subcommand {
  std::string_view name;
  base::Status (*run)(const Run&);
};
constexpr Subcommand kSubcommands[] = {
    {"apply", Apply},           {"assert", Assert},
    {"export", Export},         {"generate-config", GenerateConfig},
    {"checkpoint", Checkpoint}, {"restore", Restore},
    {"recover", Recover}};

// Where a driver container's files are, when this runs beside one.
mig::NodeSettings Settings(const CommandLine::Environment& environment) {
  mig::NodeSettings settings;
  const auto root = environment("DRIVER_ROOT_CTR_PATH");
  if (root && !root->empty()) settings.driver_roots.insert(settings.driver_roots.begin(), *root);
  return settings;
}

base::Status Start(int argc, char** argv) {
  const auto environment = CommandLine::Process();
  TRY_ASSIGN(const auto call, CommandLines().Read(argc, argv, environment));
  if (!call) return {};
  if (call->debug) base::ConfigureLog({.level = base::LogLevel::kDebug});
  mig::NodeGpus node(Settings(environment));
  for (const auto& subcommand : kSubcommands) {
    if (subcommand.name == call->subcommand) return subcommand.run({*call, node});
  }
  return {};
}

int Report(const base::Error& error) {
  std::string text = error.message;
  if (!text.empty()) {
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  }
  base::Log(base::LogLevel::kError, text, {{"reason", error.reason}});
  return 1;
}

}  // namespace

int Command(int argc, char** argv) {
  try {
    const auto started = Start(argc, argv);
    return started ? 0 : Report(started.error());
  } catch (const std::exception& error) {
    return Report(base::Internal("Unexpected", error.what()));
  }
}

}  // namespace pitcrew::node::mig_parted
