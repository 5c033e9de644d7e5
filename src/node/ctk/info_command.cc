// nvidia-ctk info. Upstream's has no content yet.
#include <fmt/format.h>

#include "base/command_line.h"
#include "node/ctk/generate_flags.h"
#include "node/ctk/generate_modes.h"
#include "node/ctk/subcommands.h"

namespace pitcrew::node::ctk {
namespace {

std::string Describe(const gpu::Device& device) {
  if (device.fault) return fmt::format("GPU {}:  {}\n", device.index, device.fault->message);
  return fmt::format(
      "GPU {}:  {} ({}){}\n", device.index, device.name, device.uuid,
      device.IsMigEnabled() ? fmt::format(", {} MIG devices", device.mig_devices.size()) : "");
}

}  // namespace

base::Status ShowInfo(const GlobalFlags& global, int argc, char** argv) {
  base::CommandLine line("nvidia-ctk info",
                         "Prints what this node is, as cdi generate --mode=auto sees it, and which "
                         "GPUs it has",
                         PITCREW_VERSION);
  GenerateFlags flags;
  AddDriverRootFlag(line, flags);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return {};
  TRY_ASSIGN(const auto root, DriverRoot(global, flags));
  const auto gpus = ReadGpus(root);
  std::string text = fmt::format("mode:   {}\n", ToString(FindMode(root, gpus)));
  if (gpus) {
    text += fmt::format("driver: {}\nCUDA:   {}.{}\n", gpus->driver_version, gpus->CudaMajor(),
                        gpus->CudaMinor());
    for (const auto& device : gpus->devices) text += Describe(device);
  } else {
    text += fmt::format("NVML:   {}\n", gpus.error().message);
  }
  Print(text);
  return {};
}

}  // namespace pitcrew::node::ctk
