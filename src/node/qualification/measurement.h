// What was measured of one GPU. Values only; nothing here judges. Nothing is what could not be
// measured, which is not the same as nothing found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::node::qualification {

// A word of the memory that did not read as it was written.
struct WrongWord {
  std::uint64_t position = 0;  // bytes from the beginning of what was tested
  std::uint32_t written = 0;
  std::uint32_t read = 0;
  bool operator==(const WrongWord&) const = default;
};

struct MemoryTest {
  std::uint64_t asked = 0;   // bytes
  std::uint64_t tested = 0;  // bytes; less where the GPU gave no more
  unsigned patterns = 0;     // how often each byte was written and read back
  std::uint64_t wrong_words = 0;
  std::optional<WrongWord> first = {};  // there is one when there are wrong words
};

// Bytes a second. Copies within the GPU count what they read and what they write.
struct Bandwidths {
  double to_device = 0;
  double from_device = 0;
  double within_device = 0;
};

// Copies to another GPU of the node: all that was sent in time, and what arrived.
struct PeerCopy {
  double bytes_per_second = 0;    // in one direction
  bool direct = false;            // over NVLink or PCIe; else the driver goes by way of the host
  std::uint64_t wrong_words = 0;  // that arrived other than they were sent
};

// What NVML says while copies run: idle GPUs lower clocks and PCIe generation.
struct UnderLoad {
  std::optional<unsigned> sm_clock_mhz;
  std::optional<unsigned> highest_sm_clock_mhz;
  std::optional<std::uint64_t> clock_reasons;  // NVML's bits
  std::optional<unsigned> pcie_generation;
  std::optional<unsigned> pcie_width;
  std::optional<unsigned> highest_pcie_generation;  // that board and slot can do together
  std::optional<unsigned> highest_pcie_width;
};

// What the GPU was made to do.
struct Exercise {
  std::optional<MemoryTest> memory;
  std::optional<Bandwidths> bandwidths;
  std::optional<UnderLoad> load;
  std::optional<PeerCopy> peer;
};

// One line of JSON, for the pipe between the two processes.
codec::Json ToJson(const Exercise& exercise);
base::Result<Exercise> ParseExercise(std::string_view text);

struct LinkHealth {
  unsigned link = 0;
  bool up = false;
  std::optional<std::uint64_t> replays;
  std::optional<std::uint64_t> recoveries;
  std::optional<std::uint64_t> crc_errors;  // flits and data
  std::optional<std::uint64_t> ecc_errors;
};

// What the driver has counted and remembers.
struct Health {
  std::optional<bool> ecc_enabled;
  std::optional<std::uint64_t> uncorrected;            // since the driver was loaded
  std::optional<std::uint64_t> uncorrected_ever;       // of the board
  std::optional<std::uint64_t> sram_threshold_passed;  // 1: yes
  std::optional<std::uint64_t> rows_remapped;          // for uncorrected errors
  std::optional<bool> remapping_pending;
  std::optional<bool> remapping_failed;
  std::optional<std::uint64_t> pages_retired;  // on boards that do not remap rows
  std::optional<bool> retirement_pending;
  std::optional<unsigned> recovery_action;  // nvml::RecoveryAction
  std::vector<LinkHealth> links;            // those that the driver tells of
};

// All of one GPU. A part with an error says why it is not there.
struct Measurement {
  unsigned index = 0;
  std::string uuid;
  std::string name;
  std::string pci;  // "0000:1b:00.0"
  std::uint32_t pci_device_id = 0;
  bool divided = false;             // by MIG: its parts are not exercised
  bool links_switched_off = false;  // AreNvLinksSwitchedOff
  std::optional<base::Error> unreadable;

  base::Result<Exercise> memory;      // the memory test
  base::Result<Exercise> bandwidths;  // bandwidths and what NVML said meanwhile
  // The GPU that it copied to, as NVML counts; none where it is the only one that is not divided.
  std::optional<unsigned> peer_index;
  base::Result<Exercise> peer;
  base::Result<Health> before;
  base::Result<Health> after;
};

}  // namespace pitcrew::node::qualification
