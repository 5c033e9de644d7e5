// The device plugin's daemon on a simulated node, and what its tests ask.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "node/device_plugin/daemon.h"
#include "node/validations/mig_change.h"
#include "nvml/nvml.h"
#include "rpc/testing/fake_kubelet.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::device_plugin {

using ::testing::UnorderedElementsAre;

inline validations::StatusFolder ValidationsOf(const test_support::SimulatedNode& node) {
  return validations::StatusFolder(node.folder().path() / "validations");
}

inline Options OptionsOn(const test_support::SimulatedNode& node, api::PluginFlags flags,
                         const std::filesystem::path& config_file) {
  Options options;
  options.flags = std::move(flags);
  options.flags.driver_root_in_here = node.driver_root().string();
  options.kubelet_socket = node.kubelet_socket();
  options.config_file = config_file;
  options.probe_period = std::chrono::milliseconds(20);
  // Long enough for a busy machine: it is waited for once.
  options.nvml_limit = std::chrono::seconds(3);
  return options;
}

inline NodePaths PathsOf(const test_support::SimulatedNode& node) {
  NodePaths paths;
  paths.cdi_folder = node.cdi_folder();
  paths.dev = node.driver_root() / "dev";
  paths.pci_devices = {node.pci_devices()};
  paths.health_file = node.folder().path() / "health.json";
  paths.validations = ValidationsOf(node).path();
  std::filesystem::create_directories(paths.validations);
  return paths;
}

class RunningDaemon : public test_support::DaemonThread {
 public:
  explicit RunningDaemon(const test_support::SimulatedNode& node, api::PluginFlags flags = {},
                         const std::filesystem::path& config_file = {})
      : RunningDaemon(OptionsOn(node, std::move(flags), config_file), PathsOf(node)) {}
  RunningDaemon(const Options& options, const NodePaths& paths)
      : DaemonThread([options, paths](const io::StopToken& stop) {
          const auto reload = io::SignalReceiver::Create({SIGHUP});
          return Daemon(options, paths, *reload, stop).Run();
        }) {}
  // SIGHUP, once it offers something.
  void Reload() { Signal(SIGHUP); }
};

inline std::vector<std::string> Uuids(const test_support::SimulatedNode& node) {
  auto library = nvml::Library::Open({node.driver_root()});
  EXPECT_TRUE(library.has_value()) << library.error().ToString();
  const auto inventory = (*library)->ReadInventory();
  std::vector<std::string> uuids;
  for (const auto& device : inventory->devices) uuids.push_back(device.uuid);
  return uuids;
}

inline std::vector<std::string> Ids(const base::Result<std::vector<rpc::PluginDevice>>& list) {
  EXPECT_TRUE(list.has_value()) << list.error().ToString();
  std::vector<std::string> ids;
  if (list) {
    for (const auto& device : *list) ids.push_back(device.id);
  }
  return ids;
}

// The next list in which the device's health is this; lists in between may come.
inline bool WaitForHealth(rpc::testing::PluginClient& client, const std::string& id, bool healthy) {
  while (true) {
    const auto list = client.NextList();
    if (!list) return false;
    const auto found = std::ranges::find(*list, id, &rpc::PluginDevice::id);
    if (found != list->end() && found->healthy == healthy) return true;
  }
}

inline api::PluginFlags CdiFlags() {
  api::PluginFlags flags;
  flags.device_list_strategy = {"cdi-annotations", "cdi-cri"};
  return flags;
}

}  // namespace pitcrew::node::device_plugin
