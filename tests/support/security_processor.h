// A GPU or NVSwitch with modes of confidential computing in a folder of sysfs: its security
// processor (simulation/sysfs/security_processor.h) behind `resource0`, its reset behind `reset`.
// For code that reads and changes modes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "simulation/sysfs/security_processor.h"
#include "tests/support/register_trap.h"

namespace pitcrew::test_support {

class SecurityProcessor : public RegisterModel {
 public:
  using Model = simulation::sysfs::SecurityProcessor;
  using Kind = Model::Kind;

  struct Faults : Model::Faults {
    int dies_after_accesses = 0;  // the process ends by SIGKILL; 0: never
  };

  // The folder below `root`/sys/bus/pci/devices with all its files; the driver is vfio-pci.
  SecurityProcessor(const std::filesystem::path& root, std::string address, Kind kind);
  ~SecurityProcessor() override;

  std::uint32_t Read(std::size_t offset) override;
  void Write(std::size_t offset, std::uint32_t value) override;

  // Can be changed at any time.
  Faults& faults();
  [[nodiscard]] unsigned setting(unsigned number) const;
  void Set(unsigned number, unsigned value);
  // Puts the settings in force, as a reset does.
  void TakeEffect();
  // "off", "on", "devtools", "invalid", or "ppcie".
  [[nodiscard]] std::string mode() const;
  [[nodiscard]] int resets() const;
  [[nodiscard]] int accesses() const;
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  // Which driver has the device now; "" for none.
  void BindTo(const std::string& driver) const;

 private:
  struct State;

  void MakeFiles() const;
  void LookForReset();
  void Count();

  const std::filesystem::path root_;
  const std::string address_;
  const Kind kind_;
  const std::filesystem::path folder_;
  State* state_;  // shared with processes that are made by fork
  std::unique_ptr<RegisterTrap> trap_;
};

}  // namespace pitcrew::test_support
