// A GPU or NVSwitch with modes of confidential computing, as its registers and its folder in sysfs
// show it (virtualisation-and-olm.md section 12.2): settings that messages change and a reset puts
// in force. Written from the document, for code that reads and changes modes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/register_trap.h"

namespace pitcrew::test_support {

class SecurityProcessor : public RegisterModel {
 public:
  enum class Kind { kHopper, kBlackwell100, kBlackwell202, kSwitch };

  // What goes wrong; all of it can be changed at any time.
  struct Faults {
    int refuses = -1;             // a write of that setting
    bool locked = false;          // the host may change nothing
    bool silent = false;          // no message is answered
    bool stays = false;           // a reset puts nothing in force
    bool never_starts = false;    // after a reset
    bool no_ppcie = false;        // firmware from before protected PCIe
    int dies_after_accesses = 0;  // the process ends by SIGKILL; 0: never
  };

  // The folder below `root`/sys/bus/pci/devices with all its files; the driver is vfio-pci.
  SecurityProcessor(const std::filesystem::path& root, std::string address, Kind kind);
  ~SecurityProcessor() override;

  std::uint32_t Read(std::size_t offset) override;
  void Write(std::size_t offset, std::uint32_t value) override;

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
  [[nodiscard]] std::uint32_t ModeRegister() const;
  std::uint32_t ReadMemoryChannel(std::size_t offset);
  void WriteMemoryChannel(std::size_t offset, std::uint32_t value);
  std::uint32_t ReadMailbox(std::size_t offset);
  void WriteMailbox(std::size_t offset, std::uint32_t value);
  void Answer(const std::uint32_t* message, std::size_t words);

  const std::filesystem::path root_;
  const std::string address_;
  const Kind kind_;
  const std::filesystem::path folder_;
  State* state_;  // shared with processes that are made by fork
  std::unique_ptr<RegisterTrap> trap_;
};

}  // namespace pitcrew::test_support
