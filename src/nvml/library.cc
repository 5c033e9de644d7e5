#include "nvml/library.h"

#include <dlfcn.h>

#include <array>

namespace pitcrew::nvml {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibraryName = "libnvidia-ml.so.1";

// device-plugin.md section 5.1; validator.md section 3.3 also looks into the root itself.
constexpr std::array kLibraryFolders = {
    "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
    "lib64",     "lib/x86_64-linux-gnu",     "lib/aarch64-linux-gnu",
    ""};

bool IsLoaderSearch(const fs::path& root) { return root.empty() || root == "/"; }

base::Error NotFoundError(const std::string& details) {
  return base::NotFound("LibraryNotFound",
                        std::string("there is no ") + kLibraryName + details +
                            "; is the NVIDIA driver installed, and is its root mounted here?");
}

}  // namespace

base::Result<fs::path> Library::Locate(const fs::path& driver_root) {
  for (const char* folder : kLibraryFolders) {
    const fs::path candidate = driver_root / folder / kLibraryName;
    if (std::error_code error; fs::exists(candidate, error)) return candidate;
  }
  return base::Fail(NotFoundError(" below " + driver_root.string()));
}

base::Result<std::shared_ptr<Library>> Library::Open(const std::vector<fs::path>& driver_roots) {
  for (const auto& root : driver_roots) {
    if (IsLoaderSearch(root)) continue;
    if (const auto path = Locate(root)) return LoadedLibrary::Load(*path);
  }
  return LoadedLibrary::Load(kLibraryName);
}

LoadedLibrary::LoadedLibrary(fs::path path, void* handle)
    : path_(std::move(path)), handle_(handle) {
  symbols_.Load(handle_);
}

base::Result<std::shared_ptr<LoadedLibrary>> LoadedLibrary::Load(const fs::path& path) {
  // Local scope: nothing else in this process may bind to NVML behind our back.
  void* handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* cause = ::dlerror();
    return base::Fail(NotFoundError(std::string(" (") + (cause != nullptr ? cause : "") + ")"));
  }
  std::shared_ptr<LoadedLibrary> library(new LoadedLibrary(path, handle));
  TRY(NVML_CALL(library->symbols_, nvmlInit_v2, "initialise NVML"));
  library->initialized_ = true;
  return library;
}

LoadedLibrary::~LoadedLibrary() {
  if (initialized_ && symbols_.nvmlShutdown != nullptr) symbols_.nvmlShutdown();
  ::dlclose(handle_);
}

base::Result<std::string> LoadedLibrary::DriverVersion() {
  return ReadText([&](char* buffer, unsigned size) {
    return NVML_CALL(symbols_, nvmlSystemGetDriverVersion, "read the driver's version", buffer,
                     size);
  });
}

base::Result<int> LoadedLibrary::CudaVersion() {
  int version = 0;
  TRY(NVML_CALL(symbols_, nvmlSystemGetCudaDriverVersion, "read the CUDA version", &version));
  return version;
}

base::Result<abi::Device> LoadedLibrary::FindDevice(std::string_view uuid) const {
  abi::Device device = nullptr;
  const std::string text(uuid);
  TRY(NVML_CALL(symbols_, nvmlDeviceGetHandleByUUID, "find GPU " + text, text.c_str(), &device));
  return device;
}

base::Status LoadedLibrary::Probe(std::string_view device_uuid) {
  TRY_ASSIGN(const abi::Device device, FindDevice(device_uuid));
  abi::PciInfo pci{};
  return NVML_CALL(symbols_, nvmlDeviceGetPciInfo_v3, "reach GPU " + std::string(device_uuid),
                   device, &pci);
}

}  // namespace pitcrew::nvml
