#include "simulation/driver/files.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "simulation/driver/mounts.h"
#include "simulation/state/capabilities.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMpsControl = "nvidia-cuda-mps-control";
constexpr unsigned kNvidiaMajor = 195;
constexpr unsigned kControlMinor = 255;
constexpr unsigned kModesetMinor = 254;

base::Status Failed(const std::error_code& error, const std::string& what) {
  return base::Fail(base::FromErrno(error.value(), what));
}

struct Node {
  std::string name;
  dev_t device;
};

std::vector<Node> NodesOf(const NodeState& node) {
  const unsigned uvm = UvmMajor();
  std::vector<Node> nodes = {{"nvidiactl", makedev(kNvidiaMajor, kControlMinor)},
                             {"nvidia-modeset", makedev(kNvidiaMajor, kModesetMinor)},
                             {"nvidia-uvm", makedev(uvm, 0)},
                             {"nvidia-uvm-tools", makedev(uvm, 1)}};
  for (std::uint32_t i = 0; i < node.gpu_count; ++i) {
    const auto minor = node.gpus[i].minor_number;
    nodes.push_back({"nvidia" + std::to_string(minor), makedev(kNvidiaMajor, minor)});
  }
  return nodes;
}

base::Status Link(const fs::path& link, const fs::path& target) {
  std::error_code error;
  fs::remove(link, error);
  fs::create_symlink(target, link, error);
  return error ? Failed(error, "link " + link.string()) : base::Status();
}

// Replaces by rename: a program that has the old file mapped keeps it.
base::Status Copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const fs::path fresh = to.string() + ".new";
  fs::copy_file(from, fresh, fs::copy_options::overwrite_existing, error);
  if (!error) fs::permissions(fresh, fs::perms(0755), error);
  if (!error) fs::rename(fresh, to, error);
  return error ? Failed(error, "copy " + from.string() + " to " + to.string()) : base::Status();
}

}  // namespace

base::Result<DriverFiles> FindDriverFiles() {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& libraries : {here / "../lib", here, here / "../.." / kDriverLibraryFolder}) {
    if (!fs::exists(libraries / "libnvidia-ml.so.1", error)) continue;
    for (const fs::path& program : {here / "nvidia-smi", libraries / "../bin/nvidia-smi"}) {
      if (fs::exists(program, error)) return DriverFiles{libraries, program};
    }
  }
  return base::Fail(base::NotFound(
      "DriverFilesMissing", "libnvidia-ml.so.1 and nvidia-smi are not beside this program (" +
                                here.string() + "); name their folder with --files"));
}

base::Status InstallDriverFiles(const fs::path& root, const std::string& version,
                                const DriverFiles& files) {
  const fs::path libraries = root / kDriverLibraryFolder;
  const fs::path programs = root / "usr/bin";
  std::error_code error;
  fs::create_directories(libraries, error);
  if (!error) fs::create_directories(programs, error);
  if (error) return Failed(error, "make " + libraries.string());
  for (const std::string name : {"libnvidia-ml.so", "libcuda.so"}) {
    const std::string full = name + "." + version;
    TRY(Copy(files.libraries / (name + ".1"), libraries / full));
    TRY(Link(libraries / (name + ".1"), full));
    TRY(Link(libraries / name, name + ".1"));
  }
  // A folder of files made by hand may be without it.
  const fs::path mps = files.nvidia_smi.parent_path() / kMpsControl;
  if (fs::exists(mps, error)) TRY(Copy(mps, programs / kMpsControl));
  return Copy(files.nvidia_smi, programs / "nvidia-smi");
}

base::Result<std::string> InstalledVersion(const fs::path& root) {
  constexpr std::string_view kPrefix = "libnvidia-ml.so.";
  const fs::path folder = root / kDriverLibraryFolder;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.find('.', kPrefix.size()) != std::string::npos) {
      return name.substr(kPrefix.size());
    }
  }
  return base::Fail(base::NotFound("DriverFilesMissing",
                                   "there is no libnvidia-ml.so.<version> in " + folder.string()));
}

base::Status MakeDeviceNodes(const fs::path& dev, const NodeState& node) {
  std::error_code error;
  fs::create_directories(dev, error);
  for (const auto& [name, device] : NodesOf(node)) {
    const fs::path path = dev / name;
    if (::mknod(path.c_str(), S_IFCHR | 0666, device) != 0 && errno != EEXIST) {
      return base::Fail(base::FromErrno(errno, "make the device node " + path.string()));
    }
    // mknod obeys the umask.
    if (::chmod(path.c_str(), 0666) != 0) {
      return base::Fail(base::FromErrno(errno, "set the mode of " + path.string()));
    }
  }
  if (const int failure = MakeCapabilityNodes(dev, node); failure != 0) {
    return base::Fail(
        base::FromErrno(failure, "make MIG capability nodes in " + (dev / "nvidia-caps").string()));
  }
  return {};
}

void RemoveDeviceNodes(const fs::path& dev, const NodeState& node) {
  for (const auto& one : NodesOf(node)) ::unlink((dev / one.name).c_str());
  std::error_code error;
  fs::remove_all(dev / "nvidia-caps", error);
}

base::Status ShowMigMinors(const fs::path& proc, const NodeState& node) {
  const fs::path driver = proc / "driver";
  const fs::path folder = driver / "nvidia-caps";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {  // a real /proc takes no folder
    TRY(MountEmpty(driver));
    fs::create_directories(folder, error);
    if (error) return Failed(error, "make " + folder.string());
  }
  return base::WriteFileAtomically(folder / "mig-minors", MigMinorsText(node), 0444);
}

}  // namespace pitcrew::simulation
