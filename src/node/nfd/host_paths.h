// Where this process sees the node's folders (node-feature-discovery.md 5.6).
#pragma once

#include <filesystem>

namespace pitcrew::node::nfd {

struct HostPaths {
  std::filesystem::path sys;       // the node's /sys
  std::filesystem::path etc;       // the folder that holds the node's os-release
  std::filesystem::path proc;      // /proc of any container: kernel release and modules
  std::filesystem::path swaps;     // the node's /proc/swaps
  std::filesystem::path features;  // features.d, files of other producers

  // In a pod of the chart the node's folders are mounted at /host-sys, /host-etc and so on;
  // elsewhere they are the own ones.
  static HostPaths Detect();
  // Everything below one folder, with the names that it has on a node.
  static HostPaths Below(const std::filesystem::path& root);
};

inline constexpr const char* kFeaturesFolder = "/etc/kubernetes/node-feature-discovery/features.d";

}  // namespace pitcrew::node::nfd
