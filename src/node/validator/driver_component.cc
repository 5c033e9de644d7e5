#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "api/labels.h"
#include "base/file.h"
#include "base/log.h"
#include "host/device_links.h"
#include "host/kernel.h"
#include "kube/config.h"
#include "kube/ownership.h"
#include "node/validator/components.h"
#include "node/validator/driver_check.h"
#include "node/validator/memory_module.h"

namespace pitcrew::node::validator {
namespace {

struct ModuleComponent {
  std::string_view flag;  // in .driver-ctr-ready
  std::string_view component;
  std::string_view module;
  const char* file;
};
constexpr std::array<ModuleComponent, 3> kModuleComponents = {{
    {"GDRCOPY_ENABLED", "gdrcopy", "gdrdrv", "gdrcopy-ready"},
    {"GDS_ENABLED", "nvidia-fs", "nvidia_fs", "nvidia-fs-ready"},
    {"GPU_DIRECT_RDMA_ENABLED", "nvidia-peermem", "nvidia_peermem", "nvidia-peermem-ready"},
}};

base::Status CheckModule(const Options& options, const ModuleComponent& component) {
  TRY(RequireModule(options, component.module));
  return StatusFolder(options.output_folder).Write(component.file);
}

// Whether what is found is written down for others.
enum class Tells { kNobody, kOthers };

// What the API server's answer is needed for. Wrong configuration and the stop stay what they are.
base::Error OwnerUnknown(const base::Error& why) {
  const bool is_final = why.code == base::Code::kInvalid || why.code == base::Code::kCancelled;
  return {is_final ? why.code : base::Code::kUnavailable, std::string(kOwnerUnknown),
          fmt::format("whether the operator brings this node's driver is not known: {}",
                      why.ToString())};
}

// One round of the driver's validation.
class DriverRound {
 public:
  DriverRound(const Options& options, Cluster& cluster, const io::StopToken& stop,
              Tells tells = Tells::kOthers)
      : options_(options),
        cluster_(cluster),
        stop_(stop),
        tells_(tells),
        status_(options.output_folder) {}

  base::Status Run() {
    const auto driver = Find();
    if (!driver) {
      // Where it is known now that the driver is not ready, whoever starts next has to wait.
      if (SaysNoDriver(driver.error())) TRY(status_.Remove(kDriverReady));
      return base::Fail(driver.error());
    }
    if (!options_.no_device_links && !driver->wsl) TRY(Link(*driver));
    TRY(status_.Write(kDriverReady, DriverReadyContent(driver->root)));
    base::LogInfo("The driver is valid", {{"host_driver", driver->root.is_host},
                                          {"driver_root", driver->root.driver_root},
                                          {"device_root", driver->root.device_root}});
    return {};
  }

  base::Result<FoundDriver> Find() {
    auto on_host = CheckHostDriver(options_, stop_);
    if (on_host || on_host.error().code != base::Code::kNotFound) return on_host;
    if (on_host.error().reason != "NoHostDriver") {
      base::LogInfo("The host's driver is left out", {{"reason", on_host.error().message}});
    }
    const auto managed = IsManaged();
    if (managed && *managed) TRY(RequireDriverContainer());
    // A driver of a container that does not work is none, whoever brings that container.
    TRY_ASSIGN(auto driver, CheckContainerDriver(options_, stop_));
    if (!managed) return base::Fail(OwnerUnknown(managed.error()));
    if (*managed) TRY(CheckAdditionalModules());
    return driver;
  }

 private:
  // Whether a DaemonSet of the operator brings the driver (3.2).
  base::Result<bool> IsManaged() {
    if (managed_) return *managed_;
    TRY_ASSIGN(const auto client, cluster_.client());
    kube::ListOptions options;
    options.label_selector = fmt::format("{}={}", api::kComponentLabel, api::kDriverComponent);
    TRY_ASSIGN(const auto found,
               client->List(kube::kDaemonSets, options_.namespace_name, options, stop_));
    const bool managed = std::ranges::any_of(found.items, [](const codec::Json& daemon_set) {
      const auto owner = kube::ControllerOf(daemon_set);
      return owner && owner->api_version.starts_with("nvidia.com/") &&
             (owner->kind == "ClusterPolicy" || owner->kind == "NVIDIADriver");
    });
    // That there is none may change while we wait: the operator may be about to make it.
    if (managed) managed_ = true;
    return managed;
  }

  base::Status RequireDriverContainer() {
    TRY_ASSIGN(const bool ready, status_.Has(kDriverContainerReady));
    if (ready) return {};
    return base::Fail(
        base::Unavailable("DriverContainerNotReady",
                          fmt::format("the driver container is not ready: {} does not exist",
                                      (options_.output_folder / kDriverContainerReady).string())));
  }

  base::Status CheckAdditionalModules() {
    TRY_ASSIGN(const auto text, base::ReadFile(status_.path() / kDriverContainerReady));
    TRY_ASSIGN(const auto flags, ParseDriverContainerReady(text));
    for (const auto& [flag, on] : flags) {
      if (!on) continue;
      const auto known = std::ranges::find(kModuleComponents, flag, &ModuleComponent::flag);
      if (known == kModuleComponents.end()) continue;
      TRY(tells_ == Tells::kOthers ? CheckModule(options_, *known)
                                   : RequireModule(options_, known->module));
    }
    return {};
  }

  // CUDA does not start without it, and only a driver container is known to load it.
  void LoadMemoryModuleOfHost() const {
    const auto loaded = LoadMemoryModule(host::Root(options_.host_seen_at), options_.proc);
    if (!loaded) {
      base::LogWarning(
          "The kernel module nvidia-uvm is not loaded, without which CUDA does not "
          "start in containers: run modprobe nvidia-uvm on the host",
          loaded.error());
    } else if (*loaded) {
      base::LogInfo("Loaded the kernel module nvidia-uvm");
    }
  }

  base::Status Link(const FoundDriver& driver) {
    if (driver.root.is_host) LoadMemoryModuleOfHost();
    const auto majors = host::ReadCharacterMajors(options_.proc);
    if (majors) {
      const auto made = host::EnsureControlDevices(driver.devices_seen_at, *majors);
      // Nodes that are there already are all that is needed.
      if (!made)
        base::LogInfo("Control devices are taken as they are", {{"reason", made.error().message}});
    }
    const auto linked = host::LinkDevices(driver.devices_seen_at,
                                          std::filesystem::path(driver.root.device_root) / "dev",
                                          options_.device_links_folder);
    if (!linked) {
      return base::Fail(linked.error().Within(
          "making links in /dev/char failed (NVIDIA/gpu-operator issue 430 tells why they are "
          "needed); where they are not, set DISABLE_DEV_CHAR_SYMLINK_CREATION=true under "
          "validator.driver.env of the ClusterPolicy"));
    }
    if (*linked == 0) {
      base::LogWarning("There is no NVIDIA device node to link in /dev/char",
                       {{"folder", driver.devices_seen_at.string()}});
    }
    return {};
  }

  const Options& options_;
  Cluster& cluster_;
  const io::StopToken& stop_;
  const Tells tells_;
  StatusFolder status_;
  std::optional<bool> managed_;
};

}  // namespace

base::Result<std::shared_ptr<kube::Client>> Cluster::client() {
  if (client_) return client_;
  TRY_ASSIGN(auto config, kube::LoadConfig(kubeconfig_));
  TRY_ASSIGN(client_, kube::Client::Create(std::move(config)));
  return client_;
}

base::Result<codec::Json> Cluster::ReadNode(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(const auto found, client());
  return found->Get(kube::kNodes, {"", options.node_name}, stop);
}

base::Status ValidateDriver(const Options& options, Cluster& cluster, const io::StopToken& stop) {
  DriverRound round(options, cluster, stop);
  return Repeat(options, {.folders = {options.output_folder, options.driver_seen_at}}, stop,
                [&] { return round.Run(); });
}

bool SaysNoDriver(const base::Error& error) {
  return error.code != base::Code::kCancelled && error.reason != kOwnerUnknown &&
         error.reason != kFormerDriverMounted;
}

base::Status CheckDriver(const Options& options, Cluster& cluster, const io::StopToken& stop) {
  TRY(DriverRound(options, cluster, stop, Tells::kNobody).Find());
  return {};
}

base::Status RequireModule(const Options& options, std::string_view module) {
  TRY_ASSIGN(const auto modules, host::ReadLoadedModules(options.proc));
  if (std::ranges::find(modules, module) != modules.end()) return {};
  return base::Fail(
      base::Unavailable("ModuleNotLoaded", fmt::format("kernel module {} is not loaded", module)));
}

base::Status ValidateModule(const Options& options, const std::string& component,
                            const io::StopToken& stop) {
  const auto known = std::ranges::find(kModuleComponents, component, &ModuleComponent::component);
  if (known == kModuleComponents.end()) {
    return base::Fail(base::Invalid("UnknownComponent", component + " has no kernel module"));
  }
  TRY(StatusFolder(options.output_folder).Remove(known->file));
  return Repeat(options, {}, stop, [&] { return CheckModule(options, *known); });
}

}  // namespace pitcrew::node::validator
