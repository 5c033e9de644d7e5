// nvidia-ctk cdi generate for what stands beside GPUs: storage, RDMA, switches and IMEX channels.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "cdi/generate/device_ids.h"
#include "cdi/generate/edits.h"
#include "host/root.h"
#include "node/ctk/generate_modes.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::ctk {
namespace {

using toolkit::BadUsage;

constexpr std::int64_t kLastImexChannel = 1048575;
constexpr std::string_view kImexFolder = "/dev/nvidia-caps-imex-channels";

cdi_generate::ClassRoots RootsOf(const cdi_generate::Options& options) {
  return {.driver = host::Root(options.driver_root),
          .dev = host::Root(options.dev_root),
          .driver_on_host = options.driver_root,
          .dev_on_host = options.dev_root,
          .additional_gids = options.additional_gids};
}

// The kind is that of the flags, not the class's own (5.3).
cdi::Spec Completed(cdi::Spec spec, const cdi_generate::Options& options) {
  spec.kind = options.kind;
  spec.edits.env = {"NVIDIA_VISIBLE_DEVICES=void"};
  cdi_generate::Assemble(spec, false);
  return spec;
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

}  // namespace

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

}  // namespace pitcrew::node::ctk
