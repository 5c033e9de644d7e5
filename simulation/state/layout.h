// The simulated GPUs of one node as they lie in the shared state file: fixed-width, no pointers,
// the same for every process that maps it. Change kLayoutVersion with every change of a field.
#pragma once

#include <cstdint>

namespace pitcrew::simulation {

inline constexpr std::uint32_t kLayoutVersion = 6;

inline constexpr unsigned kMaxGpus = 16;
inline constexpr unsigned kMaxGpuInstanceProfiles = 18;
inline constexpr unsigned kMaxPlacements = 8;
inline constexpr unsigned kMaxMemorySlices = 16;
inline constexpr unsigned kMaxComputeProfiles = 9;
inline constexpr unsigned kMaxGpuInstances = 8;
inline constexpr unsigned kMaxComputeInstances = 8;
inline constexpr unsigned kMaxProcesses = 16;
inline constexpr unsigned kMaxNvLinks = 18;
inline constexpr unsigned kMaxEvents = 128;
inline constexpr unsigned kMaxGpmValues = 16;
inline constexpr std::uint32_t kNoInstance = 0xffffffff;

struct ComputeProfile {
  std::uint32_t index;  // NVML's compute instance profile index
  std::uint32_t id;
  std::uint32_t slices;
  std::uint32_t max_instances;
  std::uint32_t multiprocessors;
};

struct GpuProfile {
  std::uint32_t index;  // NVML's GPU instance profile index
  std::uint32_t id;     // what create and list calls take
  std::uint32_t slices;
  std::uint32_t max_instances;
  std::uint32_t multiprocessors;
  std::uint32_t copy_engines;
  std::uint32_t decoders;
  std::uint32_t encoders;
  std::uint32_t jpegs;
  std::uint32_t ofas;
  std::uint32_t p2p;
  std::uint32_t placement_size;  // memory slices
  std::uint32_t placement_count;
  std::uint32_t placement_starts[kMaxPlacements];
  std::uint32_t compute_profile_count;
  std::uint64_t memory_mib;
  ComputeProfile compute_profiles[kMaxComputeProfiles];
};

struct ComputeInstanceState {
  std::uint64_t serial;  // unique over the life of the state, 0 = free slot
  std::uint32_t id;
  std::uint32_t profile;  // position in GpuProfile::compute_profiles
  std::uint32_t start;    // compute slices inside the GPU instance
  std::uint32_t size;
};

struct GpuInstanceState {
  std::uint64_t serial;  // unique over the life of the state, 0 = free slot
  std::uint32_t id;
  std::uint32_t profile;  // position in GpuState::profiles
  std::uint32_t start;    // memory slices
  std::uint32_t size;
  ComputeInstanceState compute_instances[kMaxComputeInstances];
};

struct ProcessState {
  std::uint32_t pid;  // 0 = free slot
  std::uint32_t graphics;
  std::uint32_t gpu_instance_id;
  std::uint32_t compute_instance_id;
  std::uint64_t used_memory;  // bytes
  char name[64];
};

// Why clocks are held down, by the bits of NVML's clocks event reasons. Time is counted for each.
inline constexpr unsigned kThrottleReasons = 9;
struct ThrottleState {
  std::uint64_t reasons;  // bits in force
  std::int64_t since;     // nanoseconds since the epoch: when they came into force
  std::uint64_t nanoseconds[kThrottleReasons];  // by bit, before `since`
};

// Counters of one NVLink, by nvmlNvLinkErrorCounter_t: replay, recovery, CRC flit, CRC data, ECC.
inline constexpr unsigned kLinkCounters = 5;

// A GPM metric that was given a value; replaces what follows from the load.
struct GpmValue {
  std::uint32_t metric;  // 0 = free slot
  std::uint32_t padding;
  double value;
};

enum class LinkPeers : std::uint32_t { kNone = 0, kSwitch = 1, kDirect = 2 };

struct GpuState {
  char profile[32];  // the name of the data file, "H100-80"
  char name[96];
  char uuid[48];
  char serial[32];
  char board_part_number[32];
  char vbios_version[32];
  char inforom_version[16];
  char inforom_oem[16];  // versions of the inforom's objects; empty = unknown
  char inforom_ecc[16];
  std::uint32_t brand;
  std::uint32_t architecture;
  std::int32_t compute_major;
  std::int32_t compute_minor;
  std::uint32_t minor_number;
  std::uint32_t pci_domain;
  std::uint32_t pci_bus;
  std::uint32_t pci_device;
  std::uint32_t pci_function;
  std::uint32_t pci_device_id;     // device << 16 | vendor
  std::uint32_t pci_subsystem_id;  // the same form
  std::uint32_t pci_class;         // 0x030200
  std::int32_t numa_node;          // -1 = none
  std::uint32_t pcie_switch;       // GPUs with the same number share a switch
  std::uint32_t pcie_generation;
  std::uint32_t pcie_width;
  std::uint32_t pcie_trained_generation;  // what the link came down to; 0: the highest
  std::uint32_t pcie_trained_width;
  std::uint32_t module_id;
  std::uint32_t addressing_mode;  // NVML's number: 1 HMM, 2 ATS
  std::uint32_t multiprocessors;
  std::uint32_t cores;
  std::uint32_t memory_bus_width;  // bits
  std::uint64_t memory_total;      // bytes
  std::uint64_t memory_reserved;   // bytes
  std::uint64_t bar1_total;        // bytes
  // One byte of the memory, counted from its beginning, has bits that read as 1 whatever is
  // written.
  std::uint64_t stuck_byte;
  std::uint32_t stuck_bits;  // 0: the memory is good
  std::uint32_t stuck_padding;

  std::uint32_t sm_clock_idle;  // MHz, also below
  std::uint32_t sm_clock_max;
  std::uint32_t memory_clock_idle;
  std::uint32_t memory_clock_max;
  std::uint32_t memory_clock_low;  // a lower one that can be set (state P2); 0: none
  std::uint32_t video_clock_idle;  // 0: as the multiprocessors'
  std::uint32_t video_clock_max;
  std::uint32_t power_idle;  // milliwatt, also below
  std::uint32_t power_min;
  std::uint32_t power_max;
  std::uint32_t power_limit;
  std::uint32_t temperature_idle;  // degrees Celsius, also below
  std::uint32_t temperature_full;
  std::uint32_t temperature_max_operating;
  std::uint32_t temperature_slowdown;
  std::uint32_t temperature_shutdown;
  std::uint32_t memory_temperature_max;  // 0 = no sensor
  std::uint32_t fan;                     // 0 none, 1 a tachometer without a fan (0 %), 2 a fan

  LinkPeers link_peers;
  std::uint32_t link_count;
  std::uint32_t link_version;     // NVML's number: 5 is NVLink 3.1, 6 is 4.0, 7 is 5.0
  std::uint32_t link_speed_mbps;  // megabytes a second
  std::uint32_t links_down;       // bits
  std::uint32_t link_padding;
  std::uint64_t link_errors[kMaxNvLinks][kLinkCounters];

  std::uint32_t fabric_state;  // 0 not supported, 3 completed
  std::uint32_t fabric_clique;
  std::uint8_t fabric_cluster[16];
  std::uint32_t fabric_health;  // NVML's number: 0 as 1, healthy; 2 unhealthy, 3 limited capacity

  std::uint32_t ecc_supported;
  std::uint32_t ecc_current;
  std::uint32_t ecc_pending;
  std::uint64_t ecc_corrected_volatile;
  std::uint64_t ecc_uncorrected_volatile;
  std::uint64_t ecc_corrected_aggregate;
  std::uint64_t ecc_uncorrected_aggregate;
  std::uint32_t sram_threshold_exceeded;

  std::uint32_t remap_banks;  // 0 = no row remapping (pages are retired instead)
  std::uint32_t remapped_correctable;
  std::uint32_t remapped_uncorrectable;
  std::uint32_t remap_pending;
  std::uint32_t remap_failure;
  std::uint32_t retired_single_bit;  // pages, on boards without row remapping
  std::uint32_t retired_double_bit;
  std::uint32_t recovery_action;  // NVML's number: 0 none, 1 reset, 2 reboot, ...
  std::uint32_t pcie_replays;
  std::uint32_t pcie_correctable_errors;

  std::uint32_t persistence_mode;
  std::uint32_t compute_mode;
  std::uint32_t virtualization_mode;  // NVML's number: 0 bare metal, 1 passed through

  std::uint32_t mig_capable;
  std::uint32_t mig_current;
  std::uint32_t mig_pending;
  std::uint32_t max_mig_devices;
  std::uint32_t profile_count;
  GpuProfile profiles[kMaxGpuInstanceProfiles];
  GpuInstanceState instances[kMaxGpuInstances];
  ProcessState processes[kMaxProcesses];

  std::uint32_t load;  // percent of full load
  std::uint32_t load_encoder;
  std::uint32_t load_decoder;
  std::uint32_t load_jpeg;
  std::uint32_t load_ofa;
  std::uint32_t resets;  // since the state was made
  std::uint32_t lost;
  std::uint32_t unknown_error;
  std::uint32_t slow_milliseconds;  // kHangs: for ever
  std::uint32_t detached;      // NVIDIA's driver does not have it: bound to another, or to none
  std::int64_t energy_since;   // nanoseconds since the epoch
  std::uint64_t energy_until;  // millijoule used before energy_since
  std::uint64_t busy_until;    // nanoseconds of full load before energy_since, for growing counters
  std::uint64_t idle_until;    // nanoseconds without any load before energy_since
  ThrottleState throttle;
  GpmValue gpm_values[kMaxGpmValues];
};

// Of GpuState::slow_milliseconds.
inline constexpr std::uint32_t kHangs = 0xffffffff;
// Of GpuState::module_id while the GPU has no place yet.
inline constexpr std::uint32_t kModuleIsSlot = 0xffffffff;

struct EventRecord {
  std::uint64_t sequence;  // 1, 2, ...; 0 = never used
  std::uint64_t type;      // NVML's event bit
  std::uint64_t data;
  std::uint32_t gpu;  // position in NodeState::gpus
  std::uint32_t gpu_instance_id;
  std::uint32_t compute_instance_id;
  std::uint32_t padding;
};

struct NodeState {
  char node_name[64];
  char driver_version[32];
  std::uint32_t cuda_version;  // 1000 * major + 10 * minor
  std::uint32_t driver_loaded;
  std::uint32_t cpus;        // of the node
  std::uint32_t numa_nodes;  // that the CPUs are spread over evenly
  std::int64_t created;      // nanoseconds since the epoch
  std::uint64_t last_serial;
  std::uint64_t last_event;
  std::uint32_t gpu_count;
  std::uint32_t description_hash;  // of the text that it was made from
  std::uint32_t driver_hangs;      // no call of NVML returns
  std::uint32_t padding;
  GpuState gpus[kMaxGpus];
  EventRecord events[kMaxEvents];  // sequence modulo kMaxEvents
};

}  // namespace pitcrew::simulation
