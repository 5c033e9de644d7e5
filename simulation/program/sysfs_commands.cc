// The simulated sysfs of a node, and what can be done to its PCI devices besides writing to it.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "simulation/program/commands.h"
#include "simulation/state/discovery.h"
#include "simulation/sysfs/control_file.h"
#include "simulation/sysfs/file_system.h"
#include "simulation/sysfs/hardware.h"
#include "simulation/sysfs/surroundings.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

struct SysfsOptions {
  std::string description = "/etc/pitcrew/simulated-gpus.yaml";
  std::string profiles;
  std::string node_name;
  std::string into;
  std::string over;
  std::string dev;
  std::string state;
  bool load = false;
  bool uevents = true;
  bool background = false;
};

base::Status ServeNow(const SysfsOptions& options, const std::function<base::Status()>& tell) {
  TRY_ASSIGN(const std::string text, base::ReadFile(options.description));
  TRY_ASSIGN(const auto description,
             ParseWholeDescription(
                 text, options.description,
                 {options.node_name.empty() ? OwnHostName() : options.node_name, "", {}}));
  TRY_ASSIGN(auto machine, sysfs::MakeMachine(description, options.profiles));
  if (options.load) (void)machine.Load("nvidia");
  sysfs::FileSystemOptions files_options{options.state, options.dev, options.uevents, {}};
  if (options.over.empty()) {
    sysfs::FileSystem files(std::move(machine), std::move(files_options));
    return sysfs::Serve(files, options.into, tell);
  }
  TRY_ASSIGN(const auto real, sysfs::RealSys::Open(options.over, machine));
  files_options.surroundings = real.surroundings();
  sysfs::FileSystem files(std::move(machine), std::move(files_options));
  return sysfs::Serve(files, options.over, [&]() -> base::Status {
    // Mounting looks into the tree, which is served only after this returns. Nobody waits for the
    // child; when it fails, it ends the file system.
    std::signal(SIGCHLD, SIG_IGN);
    const pid_t server = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) return base::Fail(base::FromErrno(errno, "fork"));
    if (child == 0) {
      auto mounted = real.MountInto(options.over);
      if (mounted) mounted = tell();
      if (!mounted) {
        fmt::print(stderr, "pitcrew-simulate: {}\n", mounted.error().message);
        ::kill(server, SIGTERM);
      }
      ::_exit(0);
    }
    return {};
  });
}

int ServeSysfs(const SysfsOptions& options) {
  const auto report = [](const base::Status& status) {
    return status ? 0 : ExitCodeFor(status.error());
  };
  if (!options.background) {
    return report(ServeNow(options, [&]() -> base::Status {
      fmt::print("The simulated sysfs is at {}\n",
                 options.over.empty() ? options.into : options.over);
      std::fflush(stdout);
      return {};
    }));
  }
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  base::FileDescriptor read_end(ends[0]);
  base::FileDescriptor write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child == 0) {
    read_end.Close();
    ::setsid();
    ::_exit(report(ServeNow(options, [&]() -> base::Status {
      (void)!::write(write_end.get(), "1", 1);
      write_end.Close();
      return {};
    })));
  }
  write_end.Close();
  char ready = 0;
  if (::read(read_end.get(), &ready, 1) == 1) return 0;
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void AddSysfs(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<SysfsOptions>();
  auto* sysfs = app.add_subcommand(
      "sysfs", "Be the /sys of a node with simulated GPUs until it is unmounted or a signal comes");
  sysfs->add_option("--description", options->description, "YAML description of the node's GPUs")
      ->capture_default_str();
  sysfs->add_option("--profiles", options->profiles, "folder with further GPU profiles");
  sysfs
      ->add_option("--node-name", options->node_name,
                   "node name when the description has none (default: the host's name)")
      ->envname("NODE_NAME");
  auto* into = sysfs->add_option("--into", options->into, "empty folder that becomes the tree");
  auto* over = sysfs->add_option(
      "--over", options->over, "the node's /sys, whose place the tree takes; what it lacks stays");
  into->excludes(over);
  sysfs->add_option("--dev", options->dev, "the node's /dev, for vfio/ (default: no device nodes)");
  sysfs->add_option("--state", options->state,
                    fmt::format("state of the simulated NVML that is told which GPUs the driver "
                                "has, for example {}",
                                kStatePath));
  sysfs->add_flag("--load-driver", options->load,
                  "NVIDIA's kernel module is loaded from the start");
  sysfs->add_flag("!--no-uevents", options->uevents,
                  "do not announce changes to this network namespace");
  sysfs->add_flag("--background", options->background, "return when the tree can be used");
  sysfs->callback([options, into, over, &exit_code] {
    if (into->count() + over->count() == 0) throw CLI::RequiredError("--into or --over");
    exit_code = ServeSysfs(*options);
  });
}

void AddCommand(CLI::App& pci, const std::string& sys, const char* name, const char* about,
                const std::string& command, std::vector<std::pair<const char*, const char*>> words,
                int& exit_code) {
  auto* one = pci.add_subcommand(name, about);
  const auto values = std::make_shared<std::vector<std::string>>(words.size());
  for (std::size_t i = 0; i < words.size(); ++i) {
    one->add_option(words[i].first, (*values)[i], words[i].second)->required();
  }
  one->callback([&sys, command, values, &exit_code] {
    std::string line = command;
    for (const auto& value : *values) line += " " + value;
    if (const auto status = sysfs::WriteControl(sys, line); !status) {
      exit_code = ExitCodeFor(status.error());
    }
  });
}

}  // namespace

void AddSysfsCommands(CLI::App& app, int& exit_code) {
  AddSysfs(app, exit_code);
  static std::string sys = "/sys";
  auto* pci =
      app.add_subcommand("pci", "Let things happen to the PCI devices of a simulated sysfs");
  pci->require_subcommand(1);
  pci->add_option("--sys", sys, "the simulated sysfs")->capture_default_str();
  AddCommand(*pci, sys, "fault", "let something fail on a device, or work again", "fault",
             {{"ADDRESS", "the device, 0000:1b:00.0"},
              {"WHAT", "bind, reset, sriov (making virtual functions) or vgpu (making vGPUs)"},
              {"ERROR", "the errno, such as EBUSY, EIO, ENOMEM; none ends it"}},
             exit_code);
  AddCommand(*pci, sys, "use", "a virtual machine starts with the device", "use",
             {{"DEVICE", "PCI address or UUID"}}, exit_code);
  AddCommand(*pci, sys, "leave", "the virtual machine ends", "leave",
             {{"DEVICE", "PCI address or UUID"}}, exit_code);
  AddCommand(*pci, sys, "load", "load a driver's kernel module", "load", {{"DRIVER", "nvidia"}},
             exit_code);
  AddCommand(*pci, sys, "unload", "unload it", "unload", {{"DRIVER", "nvidia"}}, exit_code);
}

}  // namespace pitcrew::simulation
