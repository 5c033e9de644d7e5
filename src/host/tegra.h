// The lists in which the packages of a Tegra system say what of the host a container needs
// (container-toolkit.md 6.10). A line is "<type>, <path>".
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace pitcrew::host {

// Written by NVIDIA's packages, all in one folder.
inline constexpr std::array<std::string_view, 3> kTegraLists = {
    "/etc/nvidia-container-runtime/host-files-for-container.d/devices.csv",
    "/etc/nvidia-container-runtime/host-files-for-container.d/drivers.csv",
    "/etc/nvidia-container-runtime/host-files-for-container.d/l4t.csv",
};
inline constexpr std::string_view kTegraRelease = "/etc/nv_tegra_release";

// Paths, perhaps with wildcards, in the order of the lists.
struct TegraLists {
  std::vector<std::string> devices;    // dev
  std::vector<std::string> folders;    // dir
  std::vector<std::string> libraries;  // lib: libraries and other files
  std::vector<std::string> links;      // sym
  [[nodiscard]] bool empty() const {
    return devices.empty() && folders.empty() && libraries.empty() && links.empty();
  }
  bool operator==(const TegraLists&) const = default;
};

// Lines that are not of that form are passed over, as comments are.
void AppendTegraLines(std::string_view text, TegraLists& lists);

struct ReadLists {
  TegraLists lists;
  std::vector<base::Error> errors;  // of files that are missing, cannot be read or say nothing
};
ReadLists ReadTegraLists(const std::vector<std::filesystem::path>& files);

}  // namespace pitcrew::host
