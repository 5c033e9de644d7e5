// The description of a node's GPUs, as people write it:
//
//   node: gpu-1                      # default: the host's name; UUIDs and serials follow from it
//   driver: {version: 580.95.05, cuda: "13.0"}
//   gpus:
//     - profile: H100-80
//       count: 8
//
// Every key is explained in simulation/README.md.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "simulation/description/platform.h"
#include "simulation/state/layout.h"

namespace pitcrew::simulation {

inline constexpr const char* kDefaultDriverVersion = "580.95.05";

struct DescriptionOptions {
  std::string node_name;       // when the description names none
  std::string driver_version;  // overrides the description's; empty = do not
  std::filesystem::path profile_folder;
};

// The node as it is before anything happened to it, driver not loaded. kInvalid
// "MalformedDescription" names file, line, what is wrong and what would be right.
base::Result<NodeState> ParseDescription(const std::string& text, const std::string& source,
                                         const DescriptionOptions& options);
// The same with what is no part of the state.
struct Description {
  NodeState node;
  PlatformDescription platform;
};
base::Result<Description> ParseWholeDescription(const std::string& text, const std::string& source,
                                                const DescriptionOptions& options);
base::Result<NodeState> LoadDescription(const std::filesystem::path& path,
                                        const DescriptionOptions& options);

// The CUDA version (13000) of a driver version; kInvalid "InvalidDriverVersion" when it is no
// driver version: two or three numbers with dots (feature-discovery.md section 12).
base::Result<std::uint32_t> CudaVersionOf(const std::string& driver_version);

}  // namespace pitcrew::simulation
