// The Container Device Interface: the value of one specification file (CDI version 1.1.0,
// container-toolkit.md 2.3).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pitcrew::cdi {

struct DeviceNode {
  std::string path;       // in the container
  std::string host_path;  // empty: same as path
  std::string type;       // empty: found out from the node itself
  std::int64_t major = 0;
  std::int64_t minor = 0;
  std::optional<std::uint32_t> file_mode;  // permission bits
  std::string permissions;                 // of r, w, m; empty means rwm
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  bool operator==(const DeviceNode&) const = default;
};

struct NetDevice {
  std::string host_name;
  std::string name;
  bool operator==(const NetDevice&) const = default;
};

struct Hook {
  std::string hook_name;  // createContainer, prestart, ...
  std::string path;
  std::vector<std::string> args;
  std::vector<std::string> env;
  std::optional<int> timeout;  // seconds
  bool operator==(const Hook&) const = default;
};

struct Mount {
  std::string host_path;
  std::string container_path;
  std::vector<std::string> options;
  std::string type;  // empty for a bind mount
  bool operator==(const Mount&) const = default;
};

struct IntelRdt {
  std::string clos_id;
  std::string l3_cache_schema;
  std::string mem_bw_schema;
  std::vector<std::string> schemata;
  bool enable_monitoring = false;
  bool enable_cmt = false;
  bool enable_mbm = false;
  bool operator==(const IntelRdt&) const = default;
};

struct ContainerEdits {
  std::vector<std::string> env;  // NAME=value
  std::vector<DeviceNode> device_nodes;
  std::vector<NetDevice> net_devices;
  std::vector<Hook> hooks;
  std::vector<Mount> mounts;
  std::optional<IntelRdt> intel_rdt;
  std::vector<std::uint32_t> additional_gids;

  // Adds everything of `other` behind what is here.
  void Append(const ContainerEdits& other);
  bool operator==(const ContainerEdits&) const = default;
};

using Annotations = std::map<std::string, std::string>;

struct Device {
  std::string name;  // unique within the specification
  Annotations annotations;
  ContainerEdits edits;
  bool operator==(const Device&) const = default;
};

struct Spec {
  std::string version;  // "cdiVersion"; empty until written: MinimumVersion
  std::string kind;     // "vendor/class"
  Annotations annotations;
  std::vector<Device> devices;
  ContainerEdits edits;  // apply with every device
  bool operator==(const Spec&) const = default;
};

}  // namespace pitcrew::cdi
