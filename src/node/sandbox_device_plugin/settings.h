// How the two programs are told what to do (kubevirt-device-plugin.md sections 1 and 9.1).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/result.h"
#include "node/sandbox_device_plugin/offers.h"

namespace pitcrew::node::sandbox_device_plugin {

struct Options {
  Client client = Client::kKubevirt;
  std::string gpu_alias;     // Kata: empty where each model has its own name
  std::string switch_alias;  // the same for NVSwitches
  std::filesystem::path pci_ids;
  std::filesystem::path kubelet_socket;
  std::string node_name;  // empty: no Events
  std::string pod_name;
  std::filesystem::path kubeconfig;
  std::string metrics_address;  // empty: no metrics
  // Sentences about what was asked for and is not there.
  std::vector<std::string> warnings;
};

// Name of the program for this client.
std::string_view ProgramName(Client client);

// Nothing when only help or the version was asked for. kInvalid "BadUsage" for a flag that is not
// known, kInvalid "BadAlias" for an alias that cannot be a resource's name.
base::Result<std::optional<Options>> ParseOptions(
    Client client, int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::sandbox_device_plugin
