#include <fmt/format.h>

#include "api/labels.h"
#include "base/log.h"
#include "host/root.h"
#include "node/validator/components.h"

namespace pitcrew::node::validator {
namespace {

constexpr std::string_view kModule = "mlx5_core";
constexpr std::string_view kContainerReady = ".driver-ready";

base::Status CheckNetworkDriver(const Options& options) {
  if (options.network_driver_on_host) return RequireModule(options, kModule);
  const auto file = options.network_driver_folder / kContainerReady;
  TRY_ASSIGN(const bool ready, host::Exists(file));
  if (ready) return {};
  return base::Fail(base::Unavailable(
      "NetworkDriverNotReady",
      fmt::format("the container of the network driver is not ready: {} does not exist",
                  file.string())));
}

}  // namespace

base::Status ValidateMofed(const Options& options, Cluster& cluster, const io::StopToken& stop) {
  if (!options.uses_rdma) {
    base::LogInfo("There is nothing to validate", {{"why", "RDMA is off"}});
    return {};
  }
  bool has_adapter = false;
  TRY(Repeat(options, {}, stop, [&]() -> base::Status {
    TRY_ASSIGN(const auto node, cluster.ReadNode(options, stop));
    has_adapter = codec::FindString(node, {"metadata", "labels", api::kMellanoxPresent}) == "true";
    return {};
  }));
  if (!has_adapter) {
    base::LogInfo(
        "There is nothing to validate",
        {{"why", "the node has no network adapter of NVIDIA's"}, {"label", api::kMellanoxPresent}});
    return {};
  }
  const StatusFolder status(options.output_folder);
  TRY(status.Remove(validations::kMofedReady));
  TRY(Repeat(options, {.folders = {options.network_driver_folder}}, stop,
             [&] { return CheckNetworkDriver(options); }));
  base::LogInfo("The driver of the network adapters is ready");
  return status.Write(validations::kMofedReady);
}

}  // namespace pitcrew::node::validator
