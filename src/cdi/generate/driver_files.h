// What lies in a driver's root and device root: the facts from which a CDI specification is made.
// Found by Locate (locate.h); a plain value, so that tests can write it down.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pitcrew::cdi_generate {

// "/usr/lib" of "/usr/lib/libcuda.so".
inline std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Paths are as a process sees them whose root is the driver root: "/usr/lib/x86_64-linux-gnu/...".
struct File {
  std::string path;    // where it belongs in a container
  std::string source;  // the real file behind it, when that is another one; empty otherwise
  bool operator==(const File&) const = default;
};

struct Library {
  std::string path;    // in the folder where it was found, with links of the folder resolved
  std::string source;  // the real file, when that has another name; empty otherwise
  std::string soname;  // empty when it names none
  // Names of the links in the library's folder: which SONAME and .so links the driver installed.
  std::vector<std::string> links;
  bool operator==(const Library&) const = default;
};

// A character device below the device root.
struct Node {
  std::string path;  // "/dev/nvidia0"
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint32_t file_mode = 0;  // permission bits
  std::uint32_t gid = 0;
  bool operator==(const Node&) const = default;
};

struct Link {
  std::string path;    // "/dev/dri/by-path/pci-0000:17:00.0-card"
  std::string target;  // as written in the link: "../card1"
  bool operator==(const Link&) const = default;
};

struct DriverFiles {
  std::string version;                       // "580.95.05"
  std::vector<std::string> library_folders;  // where lib*.so.<version> were found, in that order
  std::vector<Library> libraries;            // to mount, in order
  std::vector<File> graphics;                // libraries, Xorg modules, configurations
  std::vector<std::string> graphics_links;   // "target::link" for graphics
  std::vector<std::string> sockets;          // of persistenced and fabric manager
  std::string mps_folder;  // of pipes to an MPS control daemon of the host; empty: none
  std::vector<std::string> firmware;
  std::vector<File> programs;

  std::vector<Node> nodes;  // NVIDIA's and DRI's, sorted by path
  std::vector<Link> by_path_links;
  // PCI address in sysfs form to its DRI node names: {"0000:17:00.0": ["card1", "renderD128"]}.
  std::map<std::string, std::vector<std::string>> dri_names;
  // Capability to minor: {"gpu0/gi1/access": 12, ...}; absent when the kernel lists none.
  std::optional<std::map<std::string, std::uint32_t>> mig_minors;

  [[nodiscard]] const Node* FindNode(const std::string& path) const;
  bool operator==(const DriverFiles&) const = default;
};

}  // namespace pitcrew::cdi_generate
