#include "node/validator/driver_check.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "host/library_search.h"
#include "host/process.h"
#include "nvml/nvml.h"

namespace pitcrew::node::validator {
namespace {

constexpr std::string_view kWslSmi = "/usr/lib/wsl/lib/nvidia-smi";

bool IsWsl(const host::Root& root) {
  struct stat info{};
  return ::lstat(root.At(kWslSmi).c_str(), &info) == 0 && info.st_size != 0;
}

// NVML's answer. kNotFound when the library cannot be loaded here.
base::Status AskNvml(const Options& options, const host::Root& root) {
  TRY_ASSIGN(const auto library, nvml::Library::Open({root.path()}));
  if (options.skip_gpu_initialisation) return {};
  TRY_ASSIGN(const auto inventory, library->ReadInventory());
  if (inventory.devices.empty()) {
    return base::Fail(base::Unavailable("NoGpus", "the driver is loaded and does not see any GPU"));
  }
  // One bad GPU does not make the driver invalid for the others; its health is the plugin's matter.
  for (const auto& device : inventory.devices) {
    if (device.fault) {
      base::LogWarning("A GPU cannot be read", *device.fault, {{"index", device.index}});
    }
  }
  return {};
}

base::Status AskProgram(const Options& options, const host::Root& root,
                        const std::filesystem::path& library, const std::filesystem::path& program,
                        bool chroot, const io::StopToken& stop) {
  host::ProgramRun run;
  run.program = program.string();
  if (options.skip_gpu_initialisation) run.arguments = {"--version"};
  if (chroot) {
    TRY_ASSIGN(const auto inside, root.Strip(program));
    run.program = inside.string();
    run.root = root.path();
  } else {
    const char* others = std::getenv("LD_PRELOAD");
    run.environment["LD_PRELOAD"] = others == nullptr || *others == '\0'
                                        ? library.string()
                                        : fmt::format("{}:{}", library.string(), others);
  }
  run.deadline = std::chrono::steady_clock::now() + kSmiTimeout;
  run.stop_fd = stop.fd();
  TRY_ASSIGN(const auto end, host::RunProgram(run));
  if (end.exit_status == 0) return {};
  return base::Fail(base::Unavailable(
      "NvidiaSmiFailed",
      fmt::format("{} ended with exit status {}", program.string(), end.exit_status)));
}

}  // namespace

base::Status ProveDriver(const Options& options, const host::Root& root,
                         const std::filesystem::path& library, const std::filesystem::path& program,
                         bool chroot, const io::StopToken& stop) {
  const auto answer =
      library.empty() ? base::Fail(base::NotFound("LibraryNotFound", "there is no NVML library"))
                      : AskNvml(options, root);
  if (answer) return {};
  base::LogInfo("NVML does not answer from here; nvidia-smi is asked",
                {{"root", root.path().string()}, {"reason", answer.error().ToString()}});
  const auto asked = AskProgram(options, root, library, program, chroot, stop);
  if (asked) return {};
  if (asked.error().code == base::Code::kCancelled) return asked;
  return base::Fail(asked.error().Within(answer.error().ToString()));
}

base::Result<FoundDriver> CheckHostDriver(const Options& options, const io::StopToken& stop) {
  const host::Root root(options.host_seen_at);
  FoundDriver driver{host::HostDriver(options.host_root), root.At("/dev"), false};
  if (IsWsl(root)) {
    driver.wsl = true;
    return driver;
  }
  const auto program = host::FirstProgram(root, host::HostSmiPaths());
  if (!program) {
    return base::Fail(
        base::NotFound("NoHostDriver",
                       fmt::format("failed to find an executable 'nvidia-smi' on the host below {}",
                                   root.path().string())));
  }
  const auto library = host::FindDriverLibrary(root, host::kNvmlLibrary);
  const auto proven =
      ProveDriver(options, root, library.value_or(std::filesystem::path()), *program, true, stop);
  if (proven) return driver;
  if (proven.error().code == base::Code::kCancelled) return base::Fail(proven.error());
  return base::Fail(base::NotFound(
      "HostDriverNotWorking", fmt::format("a driver is installed on the host and does not work: {}",
                                          proven.error().message)));
}

namespace {

// The folder's place in a file system, followed through mounts; none where it cannot be told.
std::optional<std::pair<dev_t, ino_t>> PlaceOf(const std::filesystem::path& folder) {
  struct stat info{};
  if (::stat(folder.c_str(), &info) != 0) return std::nullopt;
  return std::pair(info.st_dev, info.st_ino);
}

// The node's root shows every mount of the node, the folder of its own only those that were made
// since on what it was bound to.
bool HasFormerDriver(const Options& options) {
  if (options.host_root != "/") return false;
  const std::filesystem::path node =
      options.host_seen_at / std::filesystem::path(options.driver_install_folder).relative_path();
  const auto own = PlaceOf(options.driver_seen_at);
  const auto nodes = PlaceOf(node);
  // A mount that comes between two looks would make a difference.
  const bool known =
      own && nodes && own == PlaceOf(options.driver_seen_at) && nodes == PlaceOf(node);
  return known && *own != *nodes &&
         host::FindDriverLibrary(host::Root(node), host::kNvmlLibrary).has_value();
}

base::Result<FoundDriver> LookAtContainerDriver(const Options& options, const io::StopToken& stop) {
  const host::Root root(options.driver_seen_at);
  TRY_ASSIGN(const auto library, host::FindDriverLibrary(root, host::kNvmlLibrary));
  TRY_ASSIGN(const auto program, host::FindProgram(root, host::kSmiProgram));
  TRY(ProveDriver(options, root, library, program, false, stop));
  FoundDriver driver;
  TRY_ASSIGN(driver.root, host::ContainerDriver(options.host_root, options.driver_install_folder,
                                                options.driver_seen_at));
  driver.devices_seen_at = driver.root.device_root == options.driver_install_folder
                               ? root.At("/dev")
                               : host::Root(options.host_seen_at).At("/dev");
  return driver;
}

}  // namespace

base::Result<FoundDriver> CheckContainerDriver(const Options& options, const io::StopToken& stop) {
  auto driver = LookAtContainerDriver(options, stop);
  if (driver || driver.error().code == base::Code::kCancelled || !HasFormerDriver(options)) {
    return driver;
  }
  return base::Fail(base::Unavailable(
      std::string(kFormerDriverMounted),
      fmt::format("{} shows the root of a driver container that is gone, and the node has another "
                  "driver there now; this container has to start anew: {}",
                  options.driver_seen_at.string(), driver.error().message)));
}

}  // namespace pitcrew::node::validator
