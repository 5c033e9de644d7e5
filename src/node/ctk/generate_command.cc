// nvidia-ctk cdi generate (container-toolkit.md 5.3).
#include <fmt/format.h>

#include <algorithm>

#include "base/command_line.h"
#include "base/log.h"
#include "base/strings.h"
#include "cdi/format.h"
#include "cdi/generate/classes.h"
#include "cdi/generate/device_ids.h"
#include "cdi/generate/edits.h"
#include "cdi/generate/generate.h"
#include "cdi/generate/locate.h"
#include "cdi/name.h"
#include "host/root.h"
#include "node/ctk/subcommands.h"
#include "node/toolkit/config_document.h"
#include "node/toolkit/options.h"
#include "nvml/nvml.h"

namespace pitcrew::node::ctk {
namespace {

using cdi_generate::Naming;
using toolkit::BadUsage;

constexpr std::int64_t kLastImexChannel = 1048575;
constexpr std::string_view kImexFolder = "/dev/nvidia-caps-imex-channels";

struct Flags {
  Text output, format, mode, driver_root, dev_root, hook_path, ldconfig_path, vendor, device_class;
  List strategies, disabled_hooks, enabled_hooks, device_ids, features;
  Switch no_all_device;
};

void AddFlags(base::CommandLine& line, Flags& to) {
  line.Add({"output", "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", "file; standard output when empty"},
           &to.output);
  line.Add({"format", "NVIDIA_CTK_CDI_GENERATE_OUTPUT_FORMAT",
            "yaml or json; by default as the ending of --output says, else yaml"},
           &to.format);
  line.Add({"mode,discovery-mode", "NVIDIA_CTK_CDI_GENERATE_MODE",
            "auto, gdrcopy, gds, imex, management, mofed, nvml or nvswitch"},
           &to.mode);
  line.Add({"driver-root", "NVIDIA_CTK_DRIVER_ROOT",
            "root of the driver; by default nvidia-container-cli.root of nvidia-ctk --config"},
           &to.driver_root);
  line.Add({"dev-root", "NVIDIA_CTK_DEV_ROOT", "root of /dev"}, &to.dev_root);
  line.Add({"nvidia-cdi-hook-path,nvidia-ctk-path", "NVIDIA_CTK_CDI_HOOK_PATH", "the hook program"},
           &to.hook_path);
  line.Add({"ldconfig-path", "NVIDIA_CTK_CDI_GENERATE_LDCONFIG_PATH",
            "handed to the hook update-ldcache; Pitcrew's needs none"},
           &to.ldconfig_path);
  line.Add({"vendor,cdi-vendor", "NVIDIA_CTK_CDI_GENERATE_VENDOR", "vendor of the kind"},
           &to.vendor);
  line.Add({"class,cdi-class", "NVIDIA_CTK_CDI_GENERATE_CLASS", "class of the kind"},
           &to.device_class);
  line.Add({"device-name-strategy", "NVIDIA_CTK_CDI_GENERATE_DEVICE_NAME_STRATEGIES",
            "index, uuid, type-index"},
           &to.strategies);
  line.Add({"disable-hook,disable-hooks", "NVIDIA_CTK_CDI_GENERATE_DISABLED_HOOKS",
            "hooks that are left out; all"},
           &to.disabled_hooks);
  line.Add({"enable-hook,enable-hooks", "NVIDIA_CTK_CDI_GENERATE_ENABLED_HOOKS",
            "hooks that stay whatever --disable-hook says; chmod is off without it"},
           &to.enabled_hooks);
  line.Add({"feature-flag,feature-flags", "NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS",
            "disable-ipc-discoverer, no-additional-gids-for-device-nodes"},
           &to.features);
  line.Add({"device-id,device-ids,device,devices", "NVIDIA_CTK_CDI_GENERATE_DEVICE_IDS",
            "indices and UUIDs of devices; all, none; numbers of channels with --mode imex"},
           &to.device_ids);
  line.Add({"no-all-device", "NVIDIA_CTK_CDI_GENERATE_NO_ALL_DEVICE", "no merged device"},
           &to.no_all_device);
}

base::Result<std::vector<Naming>> ParseStrategies(const List& names) {
  if (!names) return std::vector{Naming::kIndex, Naming::kUuid};
  std::vector<Naming> strategies;
  for (const auto& name : *names) {
    if (name == "index") {
      strategies.push_back(Naming::kIndex);
    } else if (name == "uuid") {
      strategies.push_back(Naming::kUuid);
    } else if (name == "type-index") {
      strategies.push_back(Naming::kTypeIndex);
    } else {
      return base::Fail(BadUsage(
          fmt::format("--device-name-strategy \"{}\" is none of index, uuid, type-index", name)));
    }
  }
  return strategies;
}

// What of upstream's features there is no counterpart of is refused: the specification would not be
// what was asked for.
base::Status CheckFeatures(const std::vector<std::string>& features) {
  for (const auto* missing : {"enable-coherent-annotations", "enable-explicit-driver-libraries"}) {
    if (std::ranges::find(features, missing) == features.end()) continue;
    return base::Fail(BadUsage(fmt::format("--feature-flag {} is not supported", missing)));
  }
  return {};
}

bool Has(const List& features, std::string_view name) {
  return features && std::ranges::find(*features, name) != features->end();
}

// What the configuration names, where no flag does.
base::Result<std::string> DriverRoot(const GlobalFlags& global, const Flags& flags) {
  std::string root = flags.driver_root.value_or("");
  if (root.empty() && !global.config.empty()) {
    TRY_ASSIGN(const auto config, toolkit::ConfigDocument::Read(global.config));
    root = config.Text("nvidia-container-cli.root");
  }
  return root.empty() ? "/" : root;
}

base::Result<cdi_generate::Options> ReadOptions(const GlobalFlags& global, const Flags& flags) {
  cdi_generate::Options options;
  TRY_ASSIGN(options.driver_root, DriverRoot(global, flags));
  options.dev_root = flags.dev_root.value_or("");
  if (options.dev_root.empty()) options.dev_root = options.driver_root;
  options.kind = flags.vendor.value_or("nvidia.com") + "/" + flags.device_class.value_or("gpu");
  TRY(cdi::ValidateKind(options.kind));
  options.hook_path = flags.hook_path.value_or(options.hook_path);
  options.ldconfig_path = flags.ldconfig_path.value_or("");
  options.merged_device = !flags.no_all_device.value_or(false);
  options.disabled_hooks = flags.disabled_hooks.value_or(std::vector<std::string>{});
  options.enabled_hooks = flags.enabled_hooks.value_or(std::vector<std::string>{});
  if (std::ranges::find(options.enabled_hooks, "all") != options.enabled_hooks.end()) {
    return base::Fail(BadUsage("--enable-hook all: name the hooks"));
  }
  TRY(CheckFeatures(flags.features.value_or(std::vector<std::string>{})));
  options.additional_gids = !Has(flags.features, "no-additional-gids-for-device-nodes");
  options.ids = flags.device_ids.value_or(options.ids);
  if (cdi_generate::MeansNoDevice(options.ids) && options.merged_device) {
    base::LogWarning("Without a device there is no device \"all\" either");
  }
  TRY_ASSIGN(options.naming, ParseStrategies(flags.strategies));
  return options;
}

base::Result<cdi::Spec> GenerateWithDriver(const cdi_generate::Options& options, bool management,
                                           bool sockets) {
  const auto library = nvml::Library::Open({options.driver_root});
  const auto inventory = library ? (*library)->ReadInventory()
                                 : base::Result<gpu::Inventory>(base::Fail(library.error()));
  if (!inventory && !management) return base::Fail(inventory.error());
  TRY_ASSIGN(auto files,
             cdi_generate::Locate({host::Root(options.driver_root), host::Root(options.dev_root),
                                   inventory ? inventory->driver_version : "", "/sys", "/proc"}));
  if (!sockets) files.sockets.clear();
  if (management) return cdi_generate::GenerateManagement(files, options);
  TRY_ASSIGN(auto generated, cdi_generate::GenerateGpus(*inventory, files, options));
  for (const auto& error : generated.omitted) base::LogWarning("A GPU is left out", error);
  return std::move(generated.spec);
}

cdi_generate::ClassRoots RootsOf(const cdi_generate::Options& options) {
  return {.driver = host::Root(options.driver_root),
          .dev = host::Root(options.dev_root),
          .driver_on_host = options.driver_root,
          .dev_on_host = options.dev_root};
}

// The kind is that of the flags, not the class's own (5.3).
cdi::Spec Completed(cdi::Spec spec, const cdi_generate::Options& options) {
  spec.kind = options.kind;
  spec.edits.env = {"NVIDIA_VISIBLE_DEVICES=void"};
  cdi_generate::Assemble(spec, false);
  return spec;
}

base::Result<cdi::Spec> GenerateOfClass(const cdi_generate::DeviceClass& device_class,
                                        const cdi_generate::Options& options) {
  TRY_ASSIGN(auto spec, cdi_generate::GenerateClass(device_class, "nvidia.com", RootsOf(options)));
  if (spec) return Completed(*std::move(spec), options);
  std::vector<std::string> looked_for;
  for (const auto& pattern : device_class.nodes) {
    looked_for.push_back(fmt::format("{}/{}*", pattern.folder, pattern.prefix));
  }
  return base::Fail(base::NotFound(
      "NoDeviceNodes",
      fmt::format("--mode {}: this node has no device {} below {}", device_class.name,
                  base::Join(looked_for, ", "), options.dev_root)));
}

// "7" and "channel7" are the same.
base::Result<std::int64_t> ParseChannel(std::string_view id) {
  std::string_view number = id;
  if (number.starts_with("channel")) number.remove_prefix(7);
  const auto channel = base::ParseInteger(number);
  if (!channel || *channel < 0 || *channel > kLastImexChannel) {
    return base::Fail(
        BadUsage(fmt::format("--device-id \"{}\" is no IMEX channel: write a number from 0 to {}",
                             id, kLastImexChannel)));
  }
  return *channel;
}

base::Result<std::vector<std::int64_t>> AllChannels(const host::Root& dev) {
  std::vector<std::int64_t> channels;
  const auto names = host::ListFolder(dev.At(kImexFolder));
  if (!names && names.error().code != base::Code::kNotFound) return base::Fail(names.error());
  for (const auto& name : names.value_or(std::vector<std::string>())) {
    if (!name.starts_with("channel")) continue;
    if (const auto channel = ParseChannel(name)) channels.push_back(*channel);
  }
  std::ranges::sort(channels);
  return channels;
}

base::Result<cdi::Spec> GenerateImex(const cdi_generate::Options& options) {
  const auto roots = RootsOf(options);
  std::vector<std::int64_t> channels;
  if (cdi_generate::MeansAllDevices(options.ids)) {
    TRY_ASSIGN(channels, AllChannels(roots.dev));
  } else {
    for (const auto& id : options.ids) {
      TRY_ASSIGN(const auto channel, ParseChannel(id));
      const auto path = cdi_generate::ImexChannelPath(channel);
      TRY_ASSIGN(const bool there, host::Exists(roots.dev.At(path)));
      if (!there) {
        return base::Fail(base::NotFound("NoSuchDevice", fmt::format("this node has no {}", path)));
      }
      channels.push_back(channel);
    }
  }
  if (channels.empty()) {
    return base::Fail(base::NotFound(
        "NoDeviceNodes",
        fmt::format("--mode imex: this node has no device {}/channel*", kImexFolder)));
  }
  return Completed(cdi_generate::GenerateImexChannels(channels, "nvidia.com", roots), options);
}

base::Result<cdi::Spec> Generate(const GlobalFlags& global, const Flags& flags) {
  const std::string mode = base::ToLower(flags.mode.value_or("auto"));
  if (mode == "csv" || mode == "wsl") {
    return base::Fail(BadUsage(
        fmt::format("--mode {} is not there yet: Pitcrew knows neither Tegra nor WSL", mode)));
  }
  TRY_ASSIGN(const auto options, ReadOptions(global, flags));
  if (const auto* device_class = cdi_generate::FindDeviceClass(mode)) {
    return GenerateOfClass(*device_class, options);
  }
  if (mode == "imex") return GenerateImex(options);
  if (mode != "auto" && mode != "nvml" && mode != "management") {
    return base::Fail(BadUsage(fmt::format(
        "--mode \"{}\" is none of auto, gdrcopy, gds, imex, management, mofed, nvml, nvswitch",
        mode)));
  }
  return GenerateWithDriver(options, mode == "management",
                            !Has(flags.features, "disable-ipc-discoverer"));
}

}  // namespace

base::Status GenerateCdi(const GlobalFlags& global, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk cdi generate",
                         "Writes a CDI specification of this node's devices", PITCREW_VERSION);
  Flags flags;
  AddFlags(line, flags);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  std::filesystem::path output = flags.output.value_or("");
  const std::string format =
      base::ToLower(flags.format.value_or(output.extension() == ".json" ? "json" : "yaml"));
  if (format != "yaml" && format != "json") {
    return base::Fail(BadUsage(fmt::format("--format \"{}\" is neither yaml nor json", format)));
  }
  TRY_ASSIGN(const cdi::Spec spec, Generate(global, flags));
  TRY(cdi::Validate(spec));
  if (output.empty()) {
    Print(format == "json" ? cdi::ToJsonText(spec) : cdi::ToYamlText(spec));
    return {};
  }
  if (output.extension() != ".json" && output.extension() != ".yaml") output += "." + format;
  TRY(cdi::WriteSpecFile(output, spec));
  base::LogInfo("Wrote a CDI specification",
                {{"file", output.string()}, {"devices", spec.devices.size()}});
  return {};
}

}  // namespace pitcrew::node::ctk
