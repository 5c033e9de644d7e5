// Readings of GPUs and of MIG instances in bulk: for those who watch them over time. Which quantity
// is read by which of NVML's calls: metrics-exporter.md sections 8 and 9.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace pitcrew::nvml {

// What can be asked. Numbers are NVML's own, in NVML's units; `number` and `scope` of the question
// say more where it is noted.
enum class Quantity : std::uint8_t {
  kField,             // a field value: number is NVML_FI_*, scope a link, 0xffffffff for all links
  kGpm,               // a profiling metric: number is NVML_GPM_METRIC_*; of the time since the
                      // last reading of this meter, so the first one is Silence::kNotYet
  kClock,             // MHz; number is nvmlClockType_t, also of the next two
  kMaxClock,          //
  kApplicationClock,  //
  kClockReasons,      // bits
  kTemperature,       // degrees Celsius
  kTemperatureThreshold,  // number is nvmlTemperatureThresholds_t
  kTemperatureMargin,
  kPowerUsage,  // milliwatt
  kPowerLimit,
  kPowerLimitMin,
  kPowerLimitMax,
  kPowerLimitDefault,
  kPowerLimitEnforced,
  kFanSpeed,  // per cent
  kPerformanceState,
  kGpuUtilization,  // per cent
  kMemoryUtilization,
  kEncoderUtilization,
  kDecoderUtilization,
  kMemoryTotal,  // bytes; of the instance where an instance is asked
  kMemoryFree,
  kMemoryUsed,
  kMemoryReserved,
  kBar1Total,
  kBar1Free,
  kBar1Used,
  kPcieReplays,
  kPcieGeneration,
  kPcieWidth,
  kPcieMaxGeneration,
  kPcieMaxWidth,
  kNvLinkState,   // number is the link: 1 up, 0 down
  kNvLinkErrors,  // number is nvmlNvLinkErrorCounter_t, scope the link
  kMemoryErrors,  // number is nvmlMemoryLocation_t; scope: 0 corrected volatile, 1 uncorrected
                  // volatile, 2 corrected aggregate, 3 uncorrected aggregate
  kSramThresholdExceeded,
  kRetiredPages,   // number is nvmlPageRetirementCause_t
  kRowRemapBanks,  // number: 0 max, 1 high, 2 partial, 3 low, 4 none
  kVgpuLicensed,   // 1 or 0
  kComputeMode,
  kPersistenceMode,
  kConfidentialComputing,
  kInforomChecksum,
  kInforomValid,    // 1 or 0
  kInforomVersion,  // a text; number is nvmlInforomObject_t
  kInforomImage,    // a text
  kVbios,           // a text
  kPeerLinkStatus,  // nvmlGpuP2PStatus_t over NVLink; number is NVML's index of the other GPU
  kCpuAffinity,     // bits of 64 processors; number: which 64, from 0
  kMemoryAffinity,  // bits of 64 NUMA nodes; number: which 64, from 0
  kVirtualizationMode,
  kAutoBoost,            // 1 or 0
  kUnrepairableMemory,   // 1 or 0
  kFabricHealth,         // bits (abi::fabric_health)
  kFabricHealthSummary,  // 1 healthy, 2 unhealthy, 3 limited capacity
  kPlatformGuid,         // a text
  kPlatformSerial,       // a text, of the chassis
  kPlatformSlot,         // in the chassis
  kPlatformTray,         //
  kPlatformHost,         //
  kPlatformPeerType,     //
  kPlatformModule,       //
  kPortCounter,          // number is nvmlPRMCounterId_t, scope the NVLink, from 0
};

struct Question {
  Quantity quantity = Quantity::kField;
  std::uint16_t number = 0;
  std::uint32_t scope = 0;
  auto operator<=>(const Question&) const = default;
};

// Why there is no answer.
enum class Silence : std::uint8_t {
  kNotSupported,
  kNoPermission,
  kNotFound,
  kNotYet,  // comes with the next reading
  kFailed,
};
using Answer = std::variant<Silence, std::int64_t, double, std::string>;

// A process on a GPU or an instance.
struct ProcessUse {
  unsigned pid = 0;
  std::uint64_t memory = 0;            // bytes
  std::optional<unsigned> sm_percent;  // not of an instance
  bool operator==(const ProcessUse&) const = default;
};

// A GPU, or one GPU instance of it.
struct Part {
  std::optional<unsigned> gpu_instance;
  std::string mig_uuid;  // of a MIG device in that instance
  std::vector<Question> questions;
  bool processes = false;  // also list the processes
};
struct GpuQuestions {
  std::string uuid;
  std::vector<Part> parts;
};

struct PartAnswers {
  std::vector<Answer> answers;  // in the order of the questions
  std::vector<ProcessUse> processes;
};
struct GpuAnswers {
  base::SteadyClock::time_point time;
  std::vector<PartAnswers> parts;  // in the order asked
};

// Remembers the last profiling samples of each part. One thread uses it at a time.
class Meter {
 public:
  virtual ~Meter() = default;
  // One entry for each GPU asked, in that order; an error is that of a GPU that does not answer,
  // and costs the others nothing. GPUs and instances that are not asked are forgotten.
  virtual std::vector<base::Result<GpuAnswers>> Read(const std::vector<GpuQuestions>& gpus) = 0;
};

}  // namespace pitcrew::nvml
