// The loaded library behind nvml.h's façade; private to this room.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nvml/errors.h"
#include "nvml/nvml.h"
#include "nvml/symbols.h"

namespace pitcrew::nvml {

class LoadedLibrary final : public Library, public std::enable_shared_from_this<LoadedLibrary> {
 public:
  // As Library::Open.
  static base::Result<std::shared_ptr<LoadedLibrary>> Find(
      const std::vector<std::filesystem::path>& driver_roots);
  // dlopen and nvmlInit.
  static base::Result<std::shared_ptr<LoadedLibrary>> Load(const std::filesystem::path& path);
  ~LoadedLibrary() override;

  [[nodiscard]] const std::filesystem::path& path() const override { return path_; }
  base::Result<gpu::Inventory> ReadInventory() override;
  base::Result<gpu::Inventory> ReadDriver() override;
  gpu::Device ReadDevice(unsigned index) override;
  base::Result<gpu::Topology> ReadTopology(const gpu::Inventory& inventory) override;
  base::Result<std::vector<gpu::Connection>> ReadConnections(
      const gpu::Inventory& inventory, unsigned from, const std::vector<unsigned>& to) override;
  base::Result<Readings> ReadReadings(std::string_view device_uuid) override;
  std::shared_ptr<Meter> MakeMeter() override;
  base::Result<Condition> ReadCondition(std::string_view device_uuid) override;
  base::Result<std::string> DriverVersion() override;
  base::Result<int> CudaVersion() override;
  base::Result<std::unique_ptr<EventSet>> CreateEventSet() override;
  base::Status Probe(std::string_view device_uuid) override;
  base::Status SetComputeMode(std::string_view device_uuid, ComputeMode mode) override;
  base::Result<std::unique_ptr<MigControl>> OpenMig(std::string_view device_uuid) override;

  [[nodiscard]] const Symbols& symbols() const { return symbols_; }
  base::Result<abi::Device> FindDevice(std::string_view uuid) const;

 private:
  LoadedLibrary(std::filesystem::path path, void* handle);

  std::filesystem::path path_;
  void* handle_;
  bool initialized_ = false;
  Symbols symbols_;
};

// Connections of all GPUs that can be read, through a function that reads those of one. An error
// only when there are several GPUs and none of them tells anything.
using ReadConnectionsOf = std::function<base::Result<std::vector<gpu::Connection>>(
    unsigned from, const std::vector<unsigned>& to)>;
base::Result<gpu::Topology> CollectTopology(const gpu::Inventory& inventory,
                                            const ReadConnectionsOf& read);

// A text that NVML writes into a buffer of at most 128 bytes.
template <class Function>
base::Result<std::string> ReadText(Function read) {
  char buffer[128] = {};
  TRY(read(buffer, static_cast<unsigned>(sizeof(buffer) - 1)));
  return std::string(buffer);
}

}  // namespace pitcrew::nvml
