#include "node/vgpu_dm/command.h"

#include <fmt/format.h>

#include <cctype>
#include <exception>
#include <memory>

#include "base/log.h"
#include "codec/yaml.h"
#include "node/mig/node_gpus.h"
#include "node/vgpu/change.h"
#include "node/vgpu/configuration.h"
#include "node/vgpu/node_vgpus.h"
#include "node/vgpu_dm/options.h"
#include "node/vgpu_dm/status.h"

namespace pitcrew::node::vgpu_dm {
namespace {

// What a subcommand works with.
struct Run {
  const base::SubcommandCall& call;
  vgpu::NodeVgpus& node;
  mig::NodeGpus* mig;  // null: the MIG geometry stays as it is

  [[nodiscard]] vgpu::ChangeOptions change() const {
    vgpu::ChangeOptions options;
    options.journal = call.Text("journal-file");
    return options;
  }
};

// The file's configuration that is meant.
base::Result<vgpu::NamedConfig> SelectedConfig(const Run& run) {
  const auto configuration = vgpu::LoadConfiguration(run.call.Text("config-file"));
  if (!configuration) {
    return base::Fail(configuration.error().Within("error parsing config file"));
  }
  const auto selected = vgpu::SelectConfig(*configuration, run.call.Text("selected-config"));
  if (!selected) return base::Fail(selected.error().Within("error selecting VGPU config"));
  return **selected;
}

base::Status Apply(const Run& run) {
  TRY_ASSIGN(const auto config, SelectedConfig(run));
  TRY_ASSIGN(const auto before, vgpu::PlanNode(run.node, run.mig, config));
  if (!before.empty()) base::LogInfo("Applying vGPU device configuration...");
  const auto plan = vgpu::Apply(run.node, run.mig, config, run.change());
  if (!plan) return base::Fail(plan.error().Within("error applying vGPU configuration"));
  for (const auto& remark : plan->remarks) base::LogWarning(remark);
  base::LogInfo("Selected vGPU device configuration successfully applied",
                {{"gpus_changed", plan->changes.size()}});
  return {};
}

base::Status Assert(const Run& run) {
  TRY_ASSIGN(const auto config, SelectedConfig(run));
  if (run.call.Switch("valid-config")) {
    base::LogInfo("Selected vGPU device configuration is valid");
    return {};
  }
  TRY_ASSIGN(const auto gpus, run.node.Read());
  if (const auto checked = vgpu::AssertConfig(gpus, config); !checked) {
    return base::Fail(
        checked.error().Within("assertion failure: selected configuration not currently applied"));
  }
  base::LogInfo("Selected vGPU device configuration is currently applied");
  return {};
}

base::Status Export(const Run& run) {
  TRY_ASSIGN(const auto gpus, run.node.Read());
  const auto configuration = ExportConfiguration(gpus, run.call.Text("config-label"));
  fmt::print("{}", run.call.Text("output-format") == "json" ? vgpu::ToJsonText(configuration) + "\n"
                                                            : vgpu::ToYamlText(configuration));
  return {};
}

base::Status Status(const Run& run) {
  TRY_ASSIGN(const auto gpus, run.node.Read());
  const auto format = run.call.Text("output-format");
  if (format == "text") {
    fmt::print("{}", StatusText(gpus));
  } else {
    const auto json = StatusJson(gpus);
    fmt::print("{}",
               format == "json" ? codec::ToPrettyJsonText(json) + "\n" : codec::ToYamlText(json));
  }
  return {};
}

base::Status Recover(const Run& run) {
  TRY_ASSIGN(const bool was_cut_off, vgpu::WasCutOff(run.change().journal));
  if (!was_cut_off) {
    base::LogInfo("No vGPU change was cut off");
    return {};
  }
  TRY(vgpu::Recover(run.node, run.mig, run.change()));
  base::LogInfo("The vGPUs before the change that was cut off are back");
  return {};
}

struct Subcommand {
  std::string_view name;
  base::Status (*run)(const Run&);
};
constexpr Subcommand kSubcommands[] = {{"apply", Apply},
                                       {"assert", Assert},
                                       {"export", Export},
                                       {"status", Status},
                                       {"recover", Recover}};

base::Status Start(const host::Root& root, int argc, const char* const* argv) {
  const auto environment = base::CommandLine::Process();
  TRY_ASSIGN(const auto call, CommandLines().Read(argc, argv, environment));
  if (!call) return {};
  if (call->debug) base::ConfigureLog({.level = base::LogLevel::kDebug});
  vgpu::NodeSettings settings{.root = root, .processes = root, .driver_roots = {root}};
  if (const auto host = call->Text("host-root-mount"); !host.empty() && host != "/") {
    settings.processes = host::Root(host);
    settings.driver_roots.emplace_back(host);
  }
  mig::NodeSettings mig_settings{.root = root};
  const auto driver = environment("DRIVER_ROOT_CTR_PATH");
  if (driver && !driver->empty()) {
    settings.driver_roots.insert(settings.driver_roots.begin(), host::Root(*driver));
    mig_settings.driver_roots.insert(mig_settings.driver_roots.begin(), *driver);
  }
  vgpu::NodeVgpus node(std::move(settings));
  mig::NodeGpus mig(std::move(mig_settings));
  for (const auto& subcommand : kSubcommands) {
    if (subcommand.name != call->subcommand) continue;
    return subcommand.run({*call, node, call->Switch("with-mig") ? &mig : nullptr});
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

int CommandAt(const std::filesystem::path& root, int argc, const char* const* argv) {
  try {
    const auto started = Start(host::Root(root), argc, argv);
    return started ? 0 : Report(started.error());
  } catch (const std::exception& error) {
    return Report(base::Internal("Unexpected", error.what()));
  }
}

int Command(int argc, char** argv) { return CommandAt("/", argc, argv); }

}  // namespace pitcrew::node::vgpu_dm
