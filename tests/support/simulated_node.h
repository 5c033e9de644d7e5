// A node with simulated GPUs in a temporary folder: an installed driver, device nodes, PCI devices,
// and a folder for the kubelet's sockets.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::test_support {

class SimulatedNode {
 public:
  // `description` as in a cluster file: "gpus: [{profile: H100-80, count: 2}]".
  explicit SimulatedNode(std::string_view description);

  [[nodiscard]] std::filesystem::path driver_root() const { return folder_.path() / "root"; }
  [[nodiscard]] std::filesystem::path kubelet_folder() const { return folder_.path() / "kubelet"; }
  [[nodiscard]] std::filesystem::path kubelet_socket() const {
    return kubelet_folder() / "kubelet.sock";
  }
  [[nodiscard]] std::filesystem::path pci_devices() const { return folder_.path() / "pci"; }
  [[nodiscard]] std::filesystem::path cdi_folder() const { return folder_.path() / "cdi"; }
  [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }

  // Installs the driver; without it the node has GPUs that nobody drives.
  void InstallDriver() const;
  // pitcrew-simulate gpu ..., on this node's state.
  void Gpu(const std::vector<std::string>& words) const;

 private:
  void Simulate(std::vector<std::string> words) const;

  TemporaryFolder folder_;
  std::filesystem::path description_;
};

}  // namespace pitcrew::test_support
