#include "node/mig_manager/cdi.h"

#include <map>

#include "base/log.h"
#include "cdi/format.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "host/device_node.h"
#include "host/kernel.h"
#include "host/mig_minors.h"

namespace pitcrew::node::mig_manager {
namespace {

constexpr const char* kManagementKind = "management.nvidia.com/gpu";
constexpr const char* kCapabilitiesMajor = "nvidia-caps";
// As the driver's own tool makes them: who may configure is the administrator.
constexpr mode_t kConfigMode = 0400;
constexpr mode_t kAccessMode = 0444;

std::map<unsigned, mode_t> MinorsOf(const gpu::Inventory& inventory,
                                    const host::MigMinors& minors) {
  std::map<unsigned, mode_t> wanted;
  if (minors.config) wanted[*minors.config] = kConfigMode;
  if (minors.monitor) wanted[*minors.monitor] = kAccessMode;
  for (const auto& device : inventory.devices) {
    for (const auto& mig : device.mig_devices) {
      const auto gpu_instance =
          minors.gpu_instances.find({device.minor_number, mig.gpu_instance_id});
      const auto compute_instance = minors.compute_instances.find(
          {device.minor_number, mig.gpu_instance_id, mig.compute_instance_id});
      if (gpu_instance != minors.gpu_instances.end()) wanted[gpu_instance->second] = kAccessMode;
      if (compute_instance != minors.compute_instances.end()) {
        wanted[compute_instance->second] = kAccessMode;
      }
    }
  }
  return wanted;
}

}  // namespace

base::Status MakeCapabilityNodes(const Options& options, const gpu::Inventory& inventory) {
  const host::Root driver(options.driver_root_container);
  TRY_ASSIGN(const auto minors,
             host::ReadMigMinors({options.sys_root / "proc", driver.At("/proc")}));
  if (minors == host::MigMinors()) return {};
  TRY_ASSIGN(const auto majors, host::ReadCharacterMajors());
  const auto major = majors.find(kCapabilitiesMajor);
  if (major == majors.end()) {
    base::LogInfo("The kernel names no device of MIG capabilities: device nodes stay as they are");
    return {};
  }
  const auto folder = options.dev_root_here() / "dev" / kCapabilitiesMajor;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return base::Fail(base::FromErrno(error.value(), "make folder " + folder.string()));
  for (const auto& [minor, mode] : MinorsOf(inventory, minors)) {
    TRY(host::EnsureCharacterDevice(folder / ("nvidia-cap" + std::to_string(minor)),
                                    {major->second, minor}, mode));
  }
  return {};
}

base::Status WriteManagementSpec(const Options& options, const gpu::Inventory& inventory) {
  const host::Root driver_root(options.driver_root_container);
  const host::Root dev_root(options.dev_root_here());
  TRY_ASSIGN(const auto files,
             cdi_generate::Locate({driver_root, dev_root, inventory.driver_version,
                                   options.sys_root / "sys", options.sys_root / "proc"}));
  cdi_generate::Options generate;
  generate.kind = kManagementKind;
  generate.driver_root = options.driver_root;
  generate.dev_root = options.dev_root.empty() ? options.driver_root : options.dev_root;
  generate.hook_path = options.cdi_hook_path;
  TRY_ASSIGN(auto spec, cdi_generate::GenerateManagement(files, generate));
  const auto path = options.cdi_folder / (cdi::SpecFileStem(kManagementKind) + ".yaml");
  TRY_ASSIGN(const bool written, cdi::UpdateSpecFile(path, std::move(spec)));
  if (written) base::LogInfo("Wrote the management CDI specification", {{"file", path.string()}});
  return {};
}

}  // namespace pitcrew::node::mig_manager
