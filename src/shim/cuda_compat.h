// CUDA forward compatibility: whether a container's own, newer libcuda should be used instead of
// the host driver's (container-toolkit.md 9.2).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "shim/container_root.h"

namespace pitcrew::shim {

struct CompatOptions {
  std::string host_driver_version;  // "580.95.05"; may be empty
  std::string host_cuda_version;    // "13.0"; may be empty
  std::string compat_folder = "/usr/local/cuda/compat";
};

// Writes /etc/ld.so.conf.d/00-compat-<random>.conf when the compatibility libraries are to be used.
// Must run before UpdateLdCache.
base::Status EnableCudaCompat(const ContainerRoot& root, const CompatOptions& options);

// What libcuda's ELF note .note.cuda.fwd_compatibility says.
struct CompatNote {
  std::string cuda_version;
  std::vector<unsigned> driver_branches;
};
// `section` is the note section's bytes. kInvalid when it is none of NVIDIA's or its JSON is
// broken.
base::Result<CompatNote> ParseCompatNote(std::string_view section);

// The decision. `compat_version` is the version of the container's libcuda ("590.48.01").
bool UseCompat(const std::optional<CompatNote>& note, std::string_view compat_version,
               const CompatOptions& options);

}  // namespace pitcrew::shim
