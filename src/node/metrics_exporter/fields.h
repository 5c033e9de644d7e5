// The counters that can be asked for: upstream's names, numbers, types, and how NVML answers each
// (metrics-exporter.md sections 8 and 9, appendices A and C).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "nvml/meter.h"

namespace pitcrew::node::metrics_exporter {

enum class FieldType : std::uint8_t { kInteger, kDouble, kText, kBinary };

// The smallest thing that a field exists for.
enum class Level : std::uint8_t {
  kNone,  // the machine: told with every GPU
  kGpu,
  kInstance,  // also of MIG instances
  kLink,
  kSwitch,
  kCpu,
  kCpuCore,
  kConnectX,
};

// From NVML's number to the field's.
enum class Conversion : std::uint8_t {
  kAsIs,
  kInteger,     // whole part
  kThousandth,  // milliwatt to watt
  kMebibytes,   // bytes to whole MiB
  kPercentToRatio,
  kMebibytesPerSecond,  // MiB/s to whole bytes a second
  kTemperature,         // above 200 degrees is no temperature
  kComputeMode,         // renumbered: 0 default, 1 prohibited, 2 exclusive process
  kBitErrorRate,        // mantissa and exponent to a ratio
};

// What is known of a device without asking for a reading.
enum class Fact : std::uint8_t {
  kDriverVersion,
  kNvmlVersion,
  kCudaVersion,
  kGpuCount,
  kName,
  kBrand,
  kIndex,
  kSerial,
  kUuid,
  kMinor,
  kPciBusId,
  kPciDeviceId,
  kPciSubsystemId,
  kComputeCapability,
  kMigMode,
  kMigMaxSlices,
  kGpmSupport,
  kFabricState,
  kFabricError,
  kFabricCluster,
  kFabricClique,
};

enum class Direction : std::uint8_t { kSent, kReceived, kBoth };

inline constexpr std::uint32_t kAllLinks = 0xffffffff;
inline constexpr std::uint32_t kOwnLink = 0xfffffffe;  // the link that the series is about

struct Source {
  enum class Kind : std::uint8_t {
    kQuestion,  // one answer of NVML
    kFact,
    kLinkRate,   // growth of NVLink's data counters
    kLinkGpm,    // a profiling metric of the series' own link
    kUsedShare,  // used memory of what is not reserved
    kXid,        // the last XID
    kNothing,    // NVML cannot answer; `reason` says why
  };
  Kind kind = Kind::kNothing;
  nvml::Question question{};
  Conversion conversion = Conversion::kAsIs;
  Fact fact = Fact::kName;
  Direction direction = Direction::kBoth;
  std::string_view reason{};
};

struct Field {
  std::uint16_t id = 0;
  std::string_view name;   // without DCGM_FI_
  std::string_view older;  // the name before 4.6; empty: the same
  FieldType type = FieldType::kInteger;
  Level level = Level::kGpu;
  Source source;
};

// Ascending by id.
std::span<const Field> AllFields();
// By any of its names as a counter file writes them: "DCGM_FI_DEV_GPU_TEMP",
// "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp". Null for a name that is none.
const Field* FindField(std::string_view name);

// Profiling fields of the groups that need a GPU with profiling metrics.
[[nodiscard]] constexpr bool IsProfiling(const Field& field) {
  return (field.id >= 1000 && field.id < 1100) || field.source.kind == Source::Kind::kLinkGpm;
}

}  // namespace pitcrew::node::metrics_exporter
