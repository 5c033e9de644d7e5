// What a driver container finds before it touches anything: in its image, and of the node.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/observed.h"
#include "base/result.h"
#include "host/module_policy.h"
#include "host/os_release.h"
#include "host/root.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

// Who installs packages in this image.
enum class PackageTool { kNone, kApt, kDnf };

struct Facts {
  std::string kernel;  // release that modules are wanted for
  bool kernel_runs = true;
  host::OsRelease system{};  // of the image
  PackageTool packages = PackageTool::kNone;

  // <drivers>/NVIDIA-Linux-<architecture>-<version>.run; absent: the image carries none.
  base::Observed<std::filesystem::path> run_file = base::Observed<std::filesystem::path>::Missing();
  std::uint64_t run_file_bytes = 0;
  // Names of other run files there, for the message.
  std::vector<std::string> other_run_files{};
  // Version of the module nvidia that /lib/modules/<kernel> of the image has; "" where it tells
  // none.
  base::Observed<std::string> module_version = base::Observed<std::string>::Missing();
  // Kernels that the image has a module nvidia for, for the message.
  std::vector<std::string> kernels_with_modules{};
  // The driver's programs and libraries are installed in the image already.
  bool has_programs = false;

  bool has_kernel_headers = false;  // FindKernelHeaders
  bool has_kernel_modules = false;  // those of the kernel itself, which the driver's depend on
  bool has_compiler = false;        // make and a C compiler
  host::ModulePolicy policy{};
  base::Observed<std::uint64_t> free_bytes = base::Observed<std::uint64_t>::Missing();
};

base::Result<Facts> ObserveImage(const Options& options);

// Where the headers of the kernel are, as a path inside the root: /lib/modules/<kernel>/build, or
// where packages have them that bring no such link (kernel-devel). Nothing without a Makefile
// there: links may lead to what is gone.
std::optional<std::filesystem::path> FindKernelHeaders(const host::Root& root,
                                                       const std::string& kernel);

// Stands in the image while files of a driver are being installed: a container that was killed then
// must not take the half for the whole.
std::filesystem::path IncompleteMarker(const Places& places);

}  // namespace pitcrew::node::driver_container
