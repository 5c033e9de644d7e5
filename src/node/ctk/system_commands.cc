// nvidia-ctk system create-device-nodes and create-dev-char-symlinks (container-toolkit.md 5.6).
#include <fmt/format.h>

#include <filesystem>

#include "base/command_line.h"
#include "base/log.h"
#include "host/device_links.h"
#include "host/device_node.h"
#include "host/kernel.h"
#include "host/root.h"
#include "kernel_modules/kernel_modules.h"
#include "node/ctk/subcommands.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::ctk {
namespace {

using toolkit::BadUsage;

constexpr const char* kModules[] = {"nvidia", "nvidia-uvm", "nvidia-modeset"};

// By libkmod, with the modules of that root.
base::Status LoadModules(const std::string& root, bool dry_run) {
  if (dry_run) {
    for (const auto* module : kModules) Print(fmt::format("load module {} of {}\n", module, root));
    return {};
  }
  TRY_ASSIGN(const auto release, host::ReadKernelRelease());
  TRY_ASSIGN(const auto modules, kernel_modules::Modules::Open(host::Root(root), release));
  for (const auto* module : kModules) TRY(modules.Load(module));
  return {};
}

base::Status MakeControlNodes(const std::filesystem::path& dev, bool dry_run) {
  TRY_ASSIGN(const auto majors, host::ReadCharacterMajors());
  if (!dry_run) return host::EnsureControlDevices(dev, majors);
  TRY_ASSIGN(const auto wanted, host::NvidiaControlDevices(majors));
  for (const auto& device : wanted) {
    Print(fmt::format("make {} as {}\n", (dev / device.name).string(), device.number.ToString()));
  }
  return {};
}

struct LinkFlags {
  Text links, root;
  Switch all, modules, nodes, dry_run;
};

void AddFlags(base::CommandLine& line, LinkFlags& to) {
  line.Add({"dev-char-path", "DEV_CHAR_PATH", "folder of the links (/dev/char)"}, &to.links);
  line.Add({"driver-root", "NVIDIA_DRIVER_ROOT,DRIVER_ROOT",
            "root whose modules --load-kernel-modules loads (/)"},
           &to.root);
  line.Add({"create-all", "CREATE_ALL",
            "also links of control nodes that do not exist yet: makes them first where "
            "--create-device-nodes is given"},
           &to.all);
  line.Add({"load-kernel-modules", "LOAD_KERNEL_MODULES", "with --create-all: load them first"},
           &to.modules);
  line.Add({"create-device-nodes", "CREATE_DEVICE_NODES", "with --create-all: make control nodes"},
           &to.nodes);
  line.Add({"dry-run", "DRY_RUN", "say what would be done"}, &to.dry_run);
}

base::Status PrintLinks(const std::filesystem::path& links) {
  TRY_ASSIGN(const auto devices, host::ListNvidiaDevices("/dev"));
  for (const auto& device : devices) {
    Print(fmt::format("link {} to /dev/{}\n", (links / device.number.ToString()).string(),
                      device.name));
  }
  return {};
}

}  // namespace

base::Status CreateDeviceNodes(const GlobalFlags&, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk system create-device-nodes",
                         "Makes the device nodes by which programs reach the driver",
                         PITCREW_VERSION);
  Text root, dev_root;
  Switch control, modules, dry_run;
  line.Add({"root,driver-root", "ROOT,NVIDIA_DRIVER_ROOT,DRIVER_ROOT", "root of the driver (/)"},
           &root);
  line.Add(
      {"dev-root", "NVIDIA_DEV_ROOT,DEV_ROOT", "root with dev/; by default that of the driver"},
      &dev_root);
  line.Add({"control-devices", "", "nvidiactl, nvidia-modeset, nvidia-uvm and nvidia-uvm-tools"},
           &control);
  line.Add({"load-kernel-modules", "", "load nvidia, nvidia-uvm and nvidia-modeset first"},
           &modules);
  line.Add({"dry-run", "DRY_RUN", "say what would be done"}, &dry_run);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  const std::string driver = root.value_or("").empty() ? "/" : *root;
  const std::string device = dev_root.value_or("").empty() ? driver : *dev_root;
  const bool dry = dry_run.value_or(false);
  if (modules.value_or(false)) TRY(LoadModules(driver, dry));
  if (!control.value_or(false)) return {};
  return MakeControlNodes(std::filesystem::path(device) / "dev", dry);
}

base::Status CreateDevCharLinks(const GlobalFlags&, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk system create-dev-char-symlinks",
                         "Links the driver's device nodes in /dev/char, where container engines "
                         "look for devices that no kernel driver has registered",
                         PITCREW_VERSION);
  LinkFlags flags;
  AddFlags(line, flags);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  const std::filesystem::path links = flags.links.value_or("/dev/char");
  const bool dry = flags.dry_run.value_or(false);
  if (flags.all.value_or(false)) {
    if (flags.modules.value_or(false)) TRY(LoadModules(flags.root.value_or("/"), dry));
    if (flags.nodes.value_or(false)) TRY(MakeControlNodes("/dev", dry));
  } else if (flags.modules.value_or(false) || flags.nodes.value_or(false)) {
    base::LogWarning("--load-kernel-modules and --create-device-nodes need --create-all");
  }
  if (dry) return PrintLinks(links);
  TRY_ASSIGN(const int right, host::LinkDevices("/dev", "/dev", links));
  base::LogInfo("Links of device nodes are right", {{"folder", links.string()}, {"links", right}});
  return {};
}

}  // namespace pitcrew::node::ctk
