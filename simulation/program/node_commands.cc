// What is done to a node: PCI devices, an installed driver, a driver container.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "base/log.h"
#include "simulation/description/description.h"
#include "simulation/driver/container.h"
#include "simulation/driver/files.h"
#include "simulation/driver/hardware.h"
#include "simulation/driver/pci_tree.h"
#include "simulation/program/commands.h"
#include "simulation/state/discovery.h"
#include "simulation/state/state_file.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultDescription = "/etc/pitcrew/simulated-gpus.yaml";

struct NodeOptions {
  std::string description = kDefaultDescription;
  std::string profiles;
  std::string node_name;
  std::string version;
  std::string into;
  std::string root = "/";
  std::string files;
};

base::Result<NodeState> Load(const NodeOptions& options) {
  return LoadDescription(options.description,
                         {options.node_name.empty() ? OwnHostName() : options.node_name,
                          options.version, options.profiles});
}

void AddDescriptionOptions(CLI::App& command, const std::shared_ptr<NodeOptions>& options) {
  command.add_option("--description", options->description, "YAML description of the node's GPUs")
      ->capture_default_str();
  command.add_option("--profiles", options->profiles, "folder with further GPU profiles");
  command
      .add_option("--node-name", options->node_name,
                  "node name when the description has none (default: the host's name)")
      ->envname("NODE_NAME");
}

base::Status PciTree(const NodeOptions& options) {
  TRY_ASSIGN(const auto node, Load(options));
  return WritePciTree(options.into, node);
}

// A node whose driver is part of the host: files, nodes, state, bound devices.
base::Status InstallDriver(const NodeOptions& options) {
  TRY_ASSIGN(auto node, Load(options));
  DriverFiles files{options.files, fs::path(options.files) / "nvidia-smi"};
  if (options.files.empty()) {
    TRY_ASSIGN(files, FindDriverFiles());
  }
  const fs::path root = options.root;
  const std::string version = node.driver_version;
  TRY(InstallDriverFiles(root, version, files));
  TRY(MakeDeviceNodes(root / "dev", node));
  if (const auto shown = ShowMigMinors(root / "proc", node); !shown) {
    base::LogWarning("MIG devices cannot be given to containers", shown.error());
  }
  node.driver_loaded = 1;
  const fs::path state = root / fs::path(kStatePath).relative_path();
  TRY(StateFile::Create(state, node));
  // Relative, so that it leads to the same file wherever the root is mounted.
  const fs::path folder = root / kDriverLibraryFolder;
  const fs::path link = folder / (kStateLibraryPrefix + version);
  std::error_code error;
  fs::remove(link, error);
  fs::create_symlink(state.lexically_relative(folder), link, error);
  if (error) return base::Fail(base::FromErrno(error.value(), "link " + link.string()));
  if (const fs::path pci = root / "sys/bus/pci/devices"; fs::is_directory(pci, error)) {
    TRY(BindPciDriver(pci, node, "nvidia"));
  }
  return {};
}

// The signals that end a foreground command. Blocked before it starts, so that one in the middle of
// the start is answered by a full undo.
sigset_t BlockEndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int one : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) sigaddset(&signals, one);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Is there, waits for a signal, is gone.
base::Status BeHardware(const HardwareOptions& options) {
  const sigset_t signals = BlockEndingSignals();
  TRY(ProvideHardware(options));
  fmt::print("The node has the simulated GPUs of {}\n", options.description.string());
  std::fflush(stdout);
  int received = 0;
  sigwait(&signals, &received);
  return RemoveHardware(options);
}

// Loads, waits for a signal, unloads.
int RunDriverContainer(const ContainerPaths& paths) {
  const sigset_t signals = BlockEndingSignals();
  DriverContainer container(paths);
  if (const auto started = container.Start(); !started) {
    base::LogError("The driver did not start", started.error());
    return 1;
  }
  base::LogInfo("The driver is loaded; waiting for the end", {{"version", container.version()}});
  int received = 0;
  sigwait(&signals, &received);
  const auto stopped = container.Stop();
  if (!stopped) base::LogError("The driver was not undone completely", stopped.error());
  base::LogInfo("The driver is unloaded", {{"signal", received}});
  return stopped ? 0 : 1;
}

}  // namespace

std::string OwnHostName() {
  char buffer[65] = {};
  return ::gethostname(buffer, sizeof(buffer) - 1) == 0 ? buffer : "node";
}

namespace {

void AddHardware(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<HardwareOptions>();
  const auto check = std::make_shared<bool>(false);
  auto* hardware = app.add_subcommand(
      "hardware",
      "Be the GPUs of a node until a signal comes: their description where drivers look for it, "
      "and a file for node feature discovery; both are gone at the end");
  hardware->add_option("--description", options->description, "YAML description of the node's GPUs")
      ->default_val(kDefaultDescription);
  hardware->add_option("--host-root", options->host_root, "the node's root as seen from here")
      ->default_val("/");
  hardware->add_option("--features", options->features_folder,
                       "folder of the node that node feature discovery's source local reads");
  hardware->add_option("--feature", options->features, "feature that is true; repeatable")
      ->needs("--features");
  hardware->add_flag("--check", *check,
                     "only tell whether the node has its GPUs (exit code 0 or 1)");
  hardware->callback([options, check, &exit_code] {
    if (*check) {
      exit_code = HasHardware(options->host_root) ? 0 : 1;
    } else if (const auto status = BeHardware(*options); !status) {
      exit_code = ExitCodeFor(status.error());
    }
  });
}

}  // namespace

void AddNodeCommands(CLI::App& app, int& exit_code) {
  AddHardware(app, exit_code);
  const auto options = std::make_shared<NodeOptions>();
  const auto run = [&exit_code, options](base::Status (*action)(const NodeOptions&)) {
    return [&exit_code, options, action] {
      if (const auto status = action(*options); !status) exit_code = ExitCodeFor(status.error());
    };
  };
  auto* pci_tree = app.add_subcommand("pci-tree", "Write the GPUs' PCI devices into a folder");
  AddDescriptionOptions(*pci_tree, options);
  pci_tree->add_option("--into", options->into, "folder like /sys/bus/pci/devices")->required();
  pci_tree->callback(run(PciTree));

  auto* install = app.add_subcommand("driver-install", "Install the driver into a root");
  AddDescriptionOptions(*install, options);
  install->add_option("--root", options->root, "root of the node")->capture_default_str();
  install->add_option(
      "--version", options->version,
      fmt::format("driver version (default: the description's, or {})", kDefaultDriverVersion));
  install->add_option("--files", options->files,
                      "folder with libnvidia-ml.so.1, libcuda.so.1 and nvidia-smi (default: where "
                      "this program's build or image has them)");
  install->callback(run(InstallDriver));

  auto* driver = app.add_subcommand("driver", "Be a driver container: nvidia-driver init");
  driver->add_option("--host-root", options->root, "the node's root as seen from here")
      ->default_str("/proc/1/root");
  driver->callback([&exit_code, options, driver] {
    ContainerPaths paths;
    if (driver->count("--host-root") != 0) paths.host_root = options->root;
    exit_code = RunDriverContainer(paths);
  });
}

int DriverContainerCommand(int argc, char** argv) {
  // Further options of upstream's `init` (licence, threads) have nothing to act on here.
  if (argc < 2 || std::string_view(argv[1]) != "init") {
    fmt::print(stderr, "usage: nvidia-driver init [OPTIONS]\n");
    return 1;
  }
  return RunDriverContainer({});
}

}  // namespace pitcrew::simulation
