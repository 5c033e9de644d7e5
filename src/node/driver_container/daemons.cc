#include "node/driver_container/daemons.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/kernel.h"
#include "host/process.h"
#include "host/root.h"
#include "host/uevent.h"
#include "node/driver_container/programs.h"

namespace pitcrew::node::driver_container {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFabricManagerConfig = "usr/share/nvidia/nvswitch/fabricmanager.cfg";
constexpr const char* kSubnetManagerConfig = "/usr/share/nvidia/nvlsm/nvlsm.conf";
constexpr std::chrono::seconds kEndOfDaemon{5};
constexpr std::chrono::seconds kStartOfDaemon{120};
constexpr std::chrono::minutes kNetworkModules{10};

struct KnownDaemon {
  const char* pid_file;  // below /var/run
  const char* process;
};
// In the order in which they are ended.
constexpr std::array kKnownDaemons = {
    KnownDaemon{"nvidia-persistenced/nvidia-persistenced.pid", "nvidia-persistenced"},
    KnownDaemon{"nvidia-gridd/nvidia-gridd.pid", "nvidia-gridd"},
    KnownDaemon{"nvidia-topologyd/nvidia-topologyd.pid", "nvidia-topologyd"},
    KnownDaemon{"nvidia-fabricmanager/nv-fabricmanager.pid", "nv-fabricmanager"},
    KnownDaemon{"nvidia-fabricmanager/nvlsm.pid", "nvlsm"},
};
enum Known { kPersistence, kLicensing, kTopology, kFabricManager, kSubnetManager };

fs::path PidFile(Known which) { return fs::path("/var/run") / kKnownDaemons[which].pid_file; }

// The kernel keeps 15 letters of a program's name.
std::string KernelName(std::string_view process) {
  constexpr std::size_t kLongest = 15;
  return std::string(process.substr(0, kLongest));
}

// 0 when it does not run. A number in an old file may be another program's by now.
pid_t RunningProcess(const Places& places, const fs::path& pid_file, std::string_view process) {
  const auto text = base::ReadFile(places.root / pid_file.relative_path());
  if (!text) return 0;
  const auto number = base::ParseUnsigned(base::Trim(*text));
  if (!number || *number == 0) return 0;
  const auto name = base::ReadFile(places.proc / std::to_string(*number) / "comm");
  return name && base::Trim(*name) == KernelName(process) ? static_cast<pid_t>(*number) : 0;
}

pid_t RunningProcess(const Places& places, const KnownDaemon& daemon) {
  return RunningProcess(places, fs::path("/var/run") / daemon.pid_file, daemon.process);
}

// Readable when the process has ended; not valid where the kernel has no such thing (before 5.3).
base::FileDescriptor EndOf(pid_t process) {
  return base::FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

bool Runs(pid_t process) { return ::kill(process, 0) == 0 || errno == EPERM; }

base::Status AwaitEnd(pid_t process, const base::FileDescriptor& end) {
  const auto deadline = std::chrono::steady_clock::now() + kEndOfDaemon;
  if (end.valid()) {
    const auto ended = io::WaitReadable({end.get()}, {}, deadline);
    return ended ? base::Status() : base::Status(base::Fail(ended.error()));
  }
  constexpr std::chrono::milliseconds kPause{50};
  while (Runs(process)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return base::Fail(base::Error{base::Code::kTimeout, "DaemonStays", "it still runs"});
    }
    [[maybe_unused]] const bool stopped = io::StopToken().WaitFor(kPause);
  }
  return {};
}

base::Status EndDaemon(pid_t process, std::string_view name) {
  const auto end = EndOf(process);
  if (::kill(process, SIGTERM) != 0) {
    if (errno == ESRCH) return {};
    return base::Fail(base::FromErrno(errno, fmt::format("end {}", name)));
  }
  if (AwaitEnd(process, end)) return {};
  return base::Fail(
      base::Error{base::Code::kTimeout, "DaemonStays",
                  fmt::format("{} (process {}) still runs {} s after it was asked to end", name,
                              process, kEndOfDaemon.count())});
}

base::Status CopyFileInto(const fs::path& file, const fs::path& folder) {
  TRY_ASSIGN(const auto content, base::ReadFile(file));
  constexpr mode_t kMode = 0600;
  return base::WriteFileAtomically(folder / file.filename(), content, kMode);
}

// The licence of a guest, from the pod's Secret or ConfigMap to where nvidia-gridd looks.
base::Status PlaceLicence(const Options& options) {
  const fs::path config = options.places.root / "etc/nvidia";
  const fs::path given = options.places.drivers / "gridd.conf";
  TRY_ASSIGN(const bool has_config, host::Exists(given));
  if (has_config) TRY(CopyFileInto(given, config));
  if (options.licence_server != "NLS") return {};
  const fs::path tokens = options.places.drivers / "ClientConfigToken";
  const auto names = host::ListFolder(tokens);
  if (!names && names.error().code == base::Code::kNotFound) return {};
  if (!names) return base::Fail(names.error());
  for (const auto& name : *names) {
    TRY_ASSIGN(const bool is_folder, host::IsDirectory(tokens / name));
    if (!is_folder) TRY(CopyFileInto(tokens / name, config / "ClientConfigToken"));
  }
  return {};
}

base::Status ConfigureFabricManager(const Options& options) {
  if (options.fabric_manager.empty()) return {};
  const fs::path file = options.places.root / kFabricManagerConfig;
  const auto config = base::ReadFile(file);
  if (!config) {
    base::LogWarning("The settings of the fabric manager (NVFM_CONFIG_...) have no effect",
                     config.error());
    return {};
  }
  return base::WriteFileAtomically(file, EditFabricManagerConfig(*config, options.fabric_manager));
}

// The subnet manager works over the network driver's modules.
base::Status AwaitNetworkModules(const Places& places, const io::StopToken& stop) {
  TRY_ASSIGN(auto events, host::UeventReceiver::Create());
  const auto deadline = std::chrono::steady_clock::now() + kNetworkModules;
  while (true) {
    TRY_ASSIGN(const auto loaded, host::ReadLoadedModules(places.proc));
    const auto is_loaded = [&](const char* name) {
      return std::ranges::find(loaded, name) != loaded.end();
    };
    if (is_loaded("mlx5_core") && is_loaded("ib_umad")) return {};
    const auto event = io::WaitReadable({events.fd()}, stop, deadline);
    if (!event && event.error().code == base::Code::kTimeout) {
      return base::Fail(base::Unavailable(
          "NetworkDriverMissing",
          "the GPUs' switches are managed over InfiniBand, and the kernel modules mlx5_core and "
          "ib_umad are not loaded: install the network driver on the node, or with the network "
          "operator"));
    }
    TRY(event);
    TRY(events.Take());
  }
}

base::Status StartDaemon(const Daemon& daemon, const io::StopToken& stop) {
  host::ProgramRun run;
  const auto program = host::FindStandardProgram(host::Root("/"), daemon.program);
  if (!program && !daemon.required) return {};
  if (!program) {
    return base::Fail(base::NotFound("ProgramMissing",
                                     fmt::format("this image has no program {}", daemon.program)));
  }
  run.program = *program;
  run.arguments = daemon.arguments;
  run.environment = daemon.environment;
  run.deadline = std::chrono::steady_clock::now() + kStartOfDaemon;
  run.stop_fd = stop.fd();
  TRY_ASSIGN(const auto end, host::RunProgram(run));
  if (end.exit_status == 0) {
    base::LogInfo("A daemon of the driver runs", {{"program", daemon.program}});
    return {};
  }
  return base::Fail(base::Internal(
      "DaemonFailed", fmt::format("{} ended with status {}; what it says stands above, or in "
                                  "/var/log of the node",
                                  daemon.program, end.exit_status)));
}

std::string LicensingLibraries(const Options& options) {
  const bool is_debian = !fs::exists(options.places.root / "usr/lib64/nvidia/gridd");
  return is_debian ? fmt::format("/usr/lib/{}-linux-gnu/nvidia/gridd", options.architecture)
                   : "/usr/lib64/nvidia/gridd";
}

}  // namespace

base::Result<Fabric> FindFabric(const Places& places) {
  const fs::path cards = places.sys / "class/infiniband";
  const auto names = host::ListFolder(cards);
  if (names) {
    for (const auto& name : *names) {
      const auto data = base::ReadFile(cards / name / "device/vpd");
      if (data && data->find("SW_MNG") != std::string::npos) return Fabric::kManagedSubnet;
    }
  } else if (names.error().code != base::Code::kNotFound) {
    return base::Fail(names.error());
  }
  const auto switches = host::ListFolder(places.proc / "driver/nvidia-nvswitch/devices");
  if (switches) return switches->empty() ? Fabric::kNone : Fabric::kSwitches;
  if (switches.error().code == base::Code::kNotFound) return Fabric::kNone;
  return base::Fail(switches.error());
}

std::string EditFabricManagerConfig(std::string_view config,
                                    const std::map<std::string, std::string>& settings) {
  auto lines = base::Split(config, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (const auto& [key, value] : settings) {
    if (key.empty()) {
      base::LogWarning("A setting of the fabric manager has no name", {{"value", value}});
      continue;
    }
    const std::string wanted = fmt::format("{}={}", key, value);
    const auto found = std::ranges::find_if(
        lines, [&](const std::string& line) { return line.starts_with(key + "="); });
    if (found == lines.end()) {
      lines.push_back(wanted);
    } else {
      *found = wanted;
    }
  }
  return base::Join(lines, "\n") + "\n";
}

std::vector<Daemon> DaemonsOf(const Options& options, Fabric fabric) {
  std::vector<Daemon> daemons = {{.program = "nvidia-persistenced",
                                  .arguments = {"--persistence-mode"},
                                  .pid_file = PidFile(kPersistence),
                                  .process = "nvidia-persistenced"}};
  if (options.is_vgpu_guest) {
    daemons.push_back({.program = "nvidia-gridd",
                       .environment = {{"LD_LIBRARY_PATH", LicensingLibraries(options)}},
                       .pid_file = PidFile(kLicensing),
                       .process = "nvidia-gridd"});
    daemons.push_back({.program = "nvidia-topologyd",
                       .pid_file = PidFile(kTopology),
                       .process = "nvidia-topologyd",
                       .required = false});
  }
  const std::string config = std::string("/") + kFabricManagerConfig;
  if (fabric == Fabric::kSwitches) {
    daemons.push_back({.program = "nv-fabricmanager",
                       .arguments = {"-c", config},
                       .pid_file = PidFile(kFabricManager),
                       .process = "nv-fabricmanager"});
  }
  if (fabric == Fabric::kManagedSubnet) {
    daemons.push_back(
        {.program = "nvidia-fabricmanager-start.sh",
         .arguments = {"--mode", "start", "--fm-config-file", config, "--fm-pid-file",
                       PidFile(kFabricManager).string(), "--nvlsm-config-file",
                       kSubnetManagerConfig, "--nvlsm-pid-file", PidFile(kSubnetManager).string()},
         .pid_file = PidFile(kFabricManager),
         .process = "nv-fabricmanager"});
  }
  return daemons;
}

base::Status StartDaemons(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(const auto fabric, FindFabric(options.places));
  if (options.is_vgpu_guest) TRY(PlaceLicence(options));
  if (fabric != Fabric::kNone) TRY(ConfigureFabricManager(options));
  if (fabric == Fabric::kManagedSubnet) TRY(AwaitNetworkModules(options.places, stop));
  for (const auto& daemon : DaemonsOf(options, fabric)) {
    if (RunningProcess(options.places, daemon.pid_file, daemon.process) != 0) continue;
    std::error_code error;
    fs::create_directories(options.places.root / daemon.pid_file.parent_path().relative_path(),
                           error);
    TRY(StartDaemon(daemon, stop));
  }
  const auto mode = options.fabric_manager.find("FABRIC_MODE");
  if (fabric == Fabric::kManagedSubnet && mode != options.fabric_manager.end() &&
      mode->second == "1") {
    TRY(RunImageProgram({.purpose = "reset the GPUs for the shared fabric",
                         .words = {"nvidia-smi", "-r"},
                         .folder = ""},
                        stop));
  }
  return {};
}

base::Status StopDaemons(const Places& places) {
  for (const auto& daemon : kKnownDaemons) {
    const pid_t process = RunningProcess(places, daemon);
    if (process != 0) TRY(EndDaemon(process, daemon.process));
  }
  return {};
}

std::set<pid_t> RunningDaemons(const Places& places) {
  std::set<pid_t> processes;
  for (const auto& daemon : kKnownDaemons) {
    if (const pid_t process = RunningProcess(places, daemon); process != 0) {
      processes.insert(process);
    }
  }
  return processes;
}

}  // namespace pitcrew::node::driver_container
