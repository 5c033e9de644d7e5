#include "simulation/driver/container.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/log.h"
#include "simulation/description/description.h"
#include "simulation/driver/files.h"
#include "simulation/driver/hardware.h"
#include "simulation/driver/mounts.h"
#include "simulation/driver/pci_tree.h"
#include "simulation/state/discovery.h"
#include "simulation/state/state_file.h"
#include "simulation/sysfs/control_file.h"
#include "simulation/sysfs/sriov.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPidFile = "nvidia-driver.pid";
constexpr const char* kDriverRoot = "driver";
constexpr const char* kValidations = "validations";
constexpr const char* kDaemonStatus = ".driver-daemons-status";
constexpr const char* kContainerReady = ".driver-ctr-ready";
constexpr const char* kSriovManage = "usr/lib/nvidia/sriov-manage";

// The node's name: from the pod's environment, else the host's. UUIDs follow from it, so it must be
// the same for every driver that comes to this node, and differ between nodes.
std::string NodeName(const fs::path& host_root) {
  if (const char* name = std::getenv("NODE_NAME"); name != nullptr && *name != 0) return name;
  const auto name = base::ReadFile(host_root / "etc/hostname");
  if (name && !name->empty()) return name->substr(0, name->find('\n'));
  char buffer[65] = {};
  return ::gethostname(buffer, sizeof(buffer) - 1) == 0 ? buffer : "node";
}

}  // namespace

fs::path DriverContainer::StatePath() const { return paths_.run / "simulation/state"; }
fs::path DriverContainer::StateLibrary() const {
  return paths_.root / kDriverLibraryFolder / (kStateLibraryPrefix + version_);
}
fs::path DriverContainer::PciFolder() const { return paths_.host_root / "sys/bus/pci/devices"; }

bool DriverContainer::IsVgpuManager() const {
  std::error_code error;
  return fs::exists(paths_.root / kSriovManage, error);
}

bool DriverContainer::HasSimulatedSysfs() const {
  return sysfs::IsSimulated(paths_.host_root / "sys");
}

// Only where there is a kernel that makes them; a tree of plain files has none.
base::Status DriverContainer::SetVirtualFunctions(bool present) {
  const fs::path sys = paths_.host_root / "sys";
  if (!IsVgpuManager() || !HasSimulatedSysfs()) return {};
  TRY_ASSIGN(const auto addresses, sysfs::SriovGpus(sys));
  for (const auto& address : addresses) {
    TRY(sysfs::SetVirtualFunctions(sys, address, present));
  }
  return {};
}

base::Status DriverContainer::TakePidFile() {
  const fs::path path = paths_.run / kPidFile;
  pid_file_ = base::FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!pid_file_.valid()) return base::Fail(base::FromErrno(errno, "open " + path.string()));
  if (::flock(pid_file_.get(), LOCK_EX | LOCK_NB) != 0) {
    return base::Fail({base::Code::kExists, "DriverContainerRunning",
                       "another driver container holds " + path.string()});
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(pid_file_.get(), 0) != 0 ||
      ::write(pid_file_.get(), pid.data(), pid.size()) != static_cast<ssize_t>(pid.size())) {
    return base::Fail(base::FromErrno(errno, "write " + path.string()));
  }
  return {};
}

// A vGPU manager runs none of the daemons that the file tells of.
base::Status DriverContainer::WriteDaemonStatus(const char* status) {
  if (IsVgpuManager()) return {};
  return base::WriteFileAtomically(paths_.run / kValidations / kDaemonStatus,
                                   std::string(status) + "\n");
}

// GPUs outlive their driver: a state made from the same description goes on, with this driver.
base::Status DriverContainer::LoadState() {
  const fs::path description = paths_.host_root / kDescriptionFile;
  TRY_ASSIGN(node_, LoadDescription(description, {NodeName(paths_.host_root), version_, {}}));
  node_.driver_loaded = 1;
  const auto existing = StateFile::Open(StatePath());
  if (existing && (*existing)->Snapshot()->description_hash == node_.description_hash) {
    return (*existing)->Update([&](NodeState& state) {
      std::snprintf(state.driver_version, sizeof(state.driver_version), "%s", version_.c_str());
      state.cuda_version = node_.cuda_version;
      state.driver_loaded = 1;
      node_ = state;
      return true;
    });
  }
  TRY(StateFile::Create(StatePath(), node_));
  return {};
}

// The daemons of a driver container have it open.
base::Status DriverContainer::ShowModule() {
  // There all containers see it; elsewhere only this one can be shown anything.
  if (!HasSimulatedSysfs()) {
    KeepSubmountsOfSysOut();
    return ShowKernelModule(paths_.root / "sys/module", "nvidia", version_);
  }
  TRY_ASSIGN(state_, StateFile::Open(StatePath()));
  TRY(state_->UseDriver());
  KeepSubmountsOfSysOut();
  return {};
}

base::Status DriverContainer::ShowDevices() {
  TRY(MakeDeviceNodes(paths_.root / "dev", node_));
  if (const auto shown = ShowMigMinors(paths_.root / "proc", node_); !shown) {
    base::LogWarning("MIG devices cannot be given to containers", shown.error());
  }
  TRY(ShowModule());
  // A node without a PCI folder of its own (no such bus) has nothing to bind.
  if (std::error_code error; fs::is_directory(PciFolder(), error)) {
    TRY(BindPciDriver(PciFolder(), node_, "nvidia", DriverLife::kWhileUsed));
  }
  return BindFile(StatePath(), StateLibrary());
}

base::Status DriverContainer::Load() {
  TRY_ASSIGN(version_, InstalledVersion(paths_.root));
  TRY(TakePidFile());
  TRY(WriteDaemonStatus("NotReady"));
  TRY(UnmountAll(paths_.run / kDriverRoot));
  TRY(LoadState());
  TRY(ShowDevices());
  TRY(MountRootAt(paths_.run / kDriverRoot));
  TRY(SetVirtualFunctions(true));
  return WriteDaemonStatus("Ready");
}

base::Status DriverContainer::Start() {
  std::error_code error;
  fs::create_directories(paths_.run / kValidations, error);
  auto status = Load();
  if (!status && pid_file_.valid() && status.error().reason != "DriverContainerRunning") {
    if (const auto undone = Unload(); !undone) {
      base::LogWarning("Undoing the driver's start left something behind", undone.error());
    }
  }
  return status;
}

base::Status DriverContainer::Stop() {
  if (state_ != nullptr && !state_->TakeDriver(false)) {
    base::LogInfo("The driver is in use; waiting until nobody uses it");
    (void)state_->TakeDriver(true);
  }
  auto status = Unload();
  state_.reset();
  return status;
}

base::Status DriverContainer::Unload() {
  base::Status first;
  const auto keep = [&](base::Status status) {
    if (!status && first) first = std::move(status);
  };
  // While virtual machines have vGPUs the driver has to stay, and its root with it.
  TRY(SetVirtualFunctions(false));
  keep(UnmountAll(paths_.run / kDriverRoot));
  if (!version_.empty()) keep(UnmountAll(StateLibrary()));
  keep(BindPciDriver(PciFolder(), node_, ""));
  RemoveDeviceNodes(paths_.root / "dev", node_);
  if (const auto file = StateFile::Open(StatePath())) {
    keep((*file)->Update([](NodeState& state) {
      state.driver_loaded = 0;
      return true;
    }));
  }
  std::error_code error;
  fs::remove(paths_.run / kValidations / kContainerReady, error);
  fs::remove(paths_.run / kValidations / kDaemonStatus, error);
  fs::remove(paths_.run / kPidFile, error);
  pid_file_.Close();
  return first;
}

}  // namespace pitcrew::simulation
