#include "nvml/library.h"

#include <dlfcn.h>

#include "host/driver_root.h"
#include "host/library_search.h"

namespace pitcrew::nvml {
namespace {

namespace fs = std::filesystem;

bool IsLoaderSearch(const fs::path& root) { return root.empty() || root == "/"; }

base::Error NotFoundError(const std::string& details) {
  return base::NotFound("LibraryNotFound",
                        std::string("there is no ") + std::string(host::kNvmlLibrary) + details +
                            "; is the NVIDIA driver installed, and is its root mounted here?");
}

}  // namespace

base::Result<std::shared_ptr<Library>> Library::Open(const std::vector<fs::path>& driver_roots) {
  return LoadedLibrary::Find(driver_roots);
}

base::Result<std::shared_ptr<LoadedLibrary>> LoadedLibrary::Find(
    const std::vector<fs::path>& driver_roots) {
  for (const auto& root : driver_roots) {
    if (IsLoaderSearch(root)) continue;
    if (const auto path = host::FindDriverLibrary(host::Root(root), host::kNvmlLibrary))
      return Load(*path);
  }
  return Load(host::kNvmlLibrary);
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

base::Status LoadedLibrary::SetComputeMode(std::string_view device_uuid, ComputeMode mode) {
  TRY_ASSIGN(const abi::Device device, FindDevice(device_uuid));
  return NVML_CALL(symbols_, nvmlDeviceSetComputeMode,
                   "set the compute mode of GPU " + std::string(device_uuid), device,
                   static_cast<unsigned>(mode));
}

}  // namespace pitcrew::nvml
