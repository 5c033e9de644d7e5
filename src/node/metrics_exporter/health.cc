#include "node/metrics_exporter/health.h"

#include <algorithm>
#include <cmath>

#include "node/metrics_exporter/fields.h"
#include "nvml/abi_metrics.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using nvml::Quantity;
using nvml::Question;
using nvml::abi::BerExponent;
using nvml::abi::BerMantissa;
namespace field = nvml::abi::field;

Question OfField(unsigned number) { return {Quantity::kField, static_cast<std::uint16_t>(number)}; }

Question OfLinks(unsigned number) {
  return {Quantity::kField, static_cast<std::uint16_t>(number), kAllLinks};
}

// Counters of which none may grow.
const std::array kLinkErrors = {OfLinks(field::kNvLinkCountSymbolErrors),
                                OfLinks(field::kNvLinkCountMalformedPacketErrors),
                                OfLinks(field::kNvLinkCountBufferOverrunErrors),
                                OfLinks(field::kNvLinkCountRcvErrors),
                                OfLinks(field::kNvLinkCountRcvRemoteErrors),
                                OfLinks(field::kNvLinkCountRcvGeneralErrors),
                                OfLinks(field::kNvLinkCountLocalLinkIntegrityErrors),
                                OfLinks(field::kNvLinkCountLinkRecoveryEvents),
                                OfLinks(field::kNvLinkCountEffectiveErrors),
                                OfField(field::kNvLinkEccDataErrorsTotal)};

class Checks {
 public:
  explicit Checks(const HealthReadings& readings) : readings_(readings) {}

  std::vector<Incident> Run() {
    CheckPcie();
    CheckMemory();
    CheckInforom();
    CheckClocks();
    CheckNvLink();
    CheckLinkQuality();
    CheckLinkStates();
    CheckFabric();
    CheckLinkErrors();
    CheckDriver();
    CheckXids();
    return std::move(incidents_);
  }

 private:
  [[nodiscard]] std::optional<std::int64_t> Of(const Question& question) const {
    return readings_.answer(question);
  }
  [[nodiscard]] bool Above(const Question& question, std::int64_t limit) const {
    return Of(question).value_or(limit) > limit;
  }
  [[nodiscard]] bool Grew(const Question& question) const {
    const auto growth = readings_.growth(question);
    return growth && growth->by > 0;
  }
  void Warn(std::string_view watch, std::string_view code) {
    incidents_.push_back({watch, Health::kWarning, code});
  }
  void Fail(std::string_view watch, std::string_view code) {
    incidents_.push_back({watch, Health::kFailure, code});
  }

  void CheckPcie() {
    constexpr std::array kPerLaneAndMinute = {0.15, 0.3, 0.48, 0.96, 1.92, 3.84};
    const auto replays = readings_.growth({Quantity::kPcieReplays});
    const auto generation = Of({Quantity::kPcieGeneration});
    const auto width = Of({Quantity::kPcieWidth});
    if (!replays || !generation || !width || replays->over.count() <= 0) return;
    if (*generation < 1 || *generation > std::ssize(kPerLaneAndMinute)) return;
    const double lane = kPerLaneAndMinute[static_cast<std::size_t>(*generation - 1)];
    constexpr double kMinute = 60;
    const double a_minute = static_cast<double>(replays->by) * kMinute / replays->over.count();
    if (a_minute > std::ceil(lane * static_cast<double>(*width))) {
      Warn("PCIE", "DCGM_FR_PCI_REPLAY_RATE");
    }
  }

  void CheckMemory() {
    constexpr std::int64_t kMostRetiredPages = 63;
    constexpr std::int64_t kMostRemappedRows = 512;
    if (Above(OfField(field::kEccDbeVolatileTotal), 0)) {
      Fail("MEM", "DCGM_FR_VOLATILE_DBE_DETECTED");
    }
    if (Above(OfField(field::kRetiredPending), 0)) Warn("MEM", "DCGM_FR_PENDING_PAGE_RETIREMENTS");
    const auto retired =
        Of({Quantity::kRetiredPages, 0}).value_or(0) + Of(OfField(field::kRetiredDbe)).value_or(0);
    if (retired >= kMostRetiredPages) Fail("MEM", "DCGM_FR_RETIRED_PAGES_LIMIT");
    CheckRetirementRate();
    if (Above(OfField(field::kRemappedUncorrectable), kMostRemappedRows - 1)) {
      Warn("MEM", "DCGM_FR_UNCORRECTABLE_ROW_REMAP_LIMIT");
    }
    if (Above(OfField(field::kRemappedFailure), 0)) Fail("MEM", "DCGM_FR_ROW_REMAP_FAILURE");
    if (Above({Quantity::kUnrepairableMemory}, 0)) Fail("MEM", "DCGM_FR_FAULTY_MEMORY");
  }

  void CheckRetirementRate() {
    constexpr std::int64_t kManyPages = 15;
    const auto pages = Of(OfField(field::kRetiredDbe));
    if (!pages || *pages <= kManyPages || !readings_.retired_a_week_ago) return;
    if (*pages - *readings_.retired_a_week_ago > 1) {
      Fail("MEM", "DCGM_FR_RETIRED_PAGES_DBE_LIMIT");
    }
  }

  void CheckInforom() {
    if (Of({Quantity::kInforomValid}) == 0) Warn("INFOROM", "DCGM_FR_CORRUPT_INFOROM");
  }

  void CheckClocks() {
    if (Grew(OfField(field::kPerfPolicyThermal))) {
      Warn("THERMAL", "DCGM_FR_CLOCKS_EVENT_THERMAL");
    }
    if (readings_.failed({Quantity::kPowerUsage})) Warn("POWER", "DCGM_FR_POWER_UNREADABLE");
    if (Grew(OfField(field::kPerfPolicyPower))) Warn("POWER", "DCGM_FR_CLOCKS_EVENT_POWER");
  }

  void CheckNvLink() {
    constexpr unsigned kTotal = 6;  // behind the first six links
    constexpr double kMostCrcErrorsPerSecond = 100;
    for (const auto first : {field::kNvLinkCrcFlitErrors, field::kNvLinkCrcDataErrors}) {
      const auto growth = readings_.growth(OfField(first + kTotal));
      if (!growth || growth->by <= 0 || growth->over.count() <= 0) continue;
      if (static_cast<double>(growth->by) / growth->over.count() >= kMostCrcErrorsPerSecond) {
        Fail("NVLINK", "DCGM_FR_NVLINK_CRC_ERROR_THRESHOLD");
      } else {
        Warn("NVLINK", "DCGM_FR_NVLINK_ERROR_THRESHOLD");
      }
    }
    for (const auto first : {field::kNvLinkReplayErrors, field::kNvLinkRecoveryErrors}) {
      if (Grew(OfField(first + kTotal))) Fail("NVLINK", "DCGM_FR_NVLINK_ERROR_CRITICAL");
    }
  }

  // Counters and rates of the fifth generation, of all links together.
  void CheckLinkQuality() {
    for (const auto& question : kLinkErrors) {
      if (Grew(question)) Fail("NVLINK", "DCGM_FR_NVLINK_ERROR_CRITICAL");
    }
    if (const auto raw = Of(OfLinks(field::kNvLinkCountEffectiveBer))) {
      const auto bits = static_cast<std::uint64_t>(*raw);
      if (IsEffectiveRateBad(BerMantissa(bits), BerExponent(bits))) {
        Fail("NVLINK", "DCGM_FR_NVLINK_EFFECTIVE_BER_THRESHOLD");
      }
    }
    if (const auto raw = Of(OfLinks(field::kNvLinkCountSymbolBer))) {
      const auto bits = static_cast<std::uint64_t>(*raw);
      if (IsSymbolRateBad(BerMantissa(bits), BerExponent(bits))) {
        Fail("NVLINK", "DCGM_FR_NVLINK_SYMBOL_BER_THRESHOLD");
      }
    }
  }

  // More than 1e-12, which is 10e-13 too.
  static bool IsEffectiveRateBad(std::uint64_t mantissa, std::uint64_t exponent) {
    if ((mantissa << 8U | exponent) == nvml::abi::kNoBitErrors) return false;
    return exponent < 12 || (exponent == 12 && mantissa > 1) || (exponent == 13 && mantissa > 10);
  }

  // Symbols that error correction could not save: none at all, as far as the counter can tell.
  [[nodiscard]] bool IsSymbolRateBad(std::uint64_t mantissa, std::uint64_t exponent) const {
    return mantissa != 0 && exponent < (readings_.is_blackwell ? 238 : 255);
  }

  void CheckLinkStates() {
    if (readings_.is_divided) return;
    for (unsigned link = 0; link < nvml::abi::kNvLinkCount; ++link) {
      if (Of({Quantity::kNvLinkState, static_cast<std::uint16_t>(link)}) == 0) {
        Fail("NVLINK", "DCGM_FR_NVLINK_DOWN");
      }
    }
  }

  // Since the driver's start.
  void CheckLinkErrors() {
    if (readings_.is_blackwell) {
      if (Above(OfLinks(field::kNvLinkCountLinkRecoverySuccessfulEvents), 0)) {
        Warn("NVLINK", "DCGM_FR_NVLINK_ERROR_CRITICAL");
      }
      if (Above(OfLinks(field::kNvLinkCountLinkRecoveryFailedEvents), 0)) {
        Fail("NVLINK", "DCGM_FR_NVLINK_ERROR_CRITICAL");
      }
      return;
    }
    for (const auto number :
         {field::kNvLinkErrorDlCrc, field::kNvLinkErrorDlRecovery, field::kNvLinkErrorDlReplay}) {
      if (Above(OfLinks(number), 0)) Fail("NVLINK", "DCGM_FR_NVLINK_ERROR_CRITICAL");
    }
  }

  // What the fabric says of this GPU's place in it.
  void CheckFabric() {
    namespace health = nvml::abi::fabric_health;
    constexpr unsigned kTwoBits = 0x3;
    constexpr unsigned kFourBits = 0xf;
    const auto mask = static_cast<std::uint32_t>(Of({Quantity::kFabricHealth}).value_or(0));
    for (const auto bit : {health::kRouteUnhealthy, health::kDegradedBandwidth,
                           health::kRouteRecovery, health::kAccessTimeoutRecovery}) {
      if ((mask >> bit & kTwoBits) == health::kTrue) Fail("NVLINK", "DCGM_FR_FIELD_VIOLATION");
    }
    const unsigned configuration = mask >> health::kIncorrectConfiguration & kFourBits;
    if (configuration > health::kConfigurationCorrect) Fail("NVLINK", "DCGM_FR_FIELD_VIOLATION");
    if (!readings_.fabric) return;
    enum State : std::uint8_t { kNotStarted = 1, kInProgress = 2, kCompleted = 3 };
    const auto& [state, status] = *readings_.fabric;
    if (state == kInProgress) Warn("NVLINK", "DCGM_FR_FABRIC_PROBE_STATE");
    if (state == kNotStarted || (state == kCompleted && status != 0)) {
      Fail("NVLINK", "DCGM_FR_FABRIC_PROBE_STATE");
    }
  }

  void CheckDriver() {
    const auto action = Of(OfField(field::kGetGpuRecoveryAction)).value_or(0);
    if (action == nvml::abi::kRecoveryGpuReset) Fail("DRIVER", "DCGM_FR_GPU_RECOVERY_RESET");
    if (action == nvml::abi::kRecoveryNodeReboot) Fail("DRIVER", "DCGM_FR_GPU_RECOVERY_REBOOT");
    if (action == nvml::abi::kRecoveryDrainP2p) Warn("DRIVER", "DCGM_FR_GPU_RECOVERY_DRAIN_P2P");
    if (action == nvml::abi::kRecoveryDrainAndReset) {
      Fail("DRIVER", "DCGM_FR_GPU_RECOVERY_DRAIN_RESET");
    }
  }

  void CheckXids() {
    struct Rule {
      std::string_view watch;
      Health health;
      std::vector<std::uint64_t> xids;
    };
    static const std::vector<Rule> kRules = {
        {"ALL", Health::kWarning, {94}},
        {"ALL", Health::kFailure, {48, 74, 79, 95, 119, 120, 140}},
        {"MEM", Health::kWarning, {31, 32, 43, 63}},
        {"MEM", Health::kFailure, {64}},
        {"PCIE", Health::kWarning, {38, 39, 42}},
        {"THERMAL", Health::kWarning, {60, 61, 62}},
        {"POWER", Health::kWarning, {54, 56, 57, 58, 78}},
        {"NVLINK", Health::kWarning, {67, 73, 121, 137}},
    };
    for (const auto& rule : kRules) {
      const bool came = std::ranges::any_of(readings_.xids, [&](std::uint64_t xid) {
        return std::ranges::find(rule.xids, xid) != rule.xids.end();
      });
      if (came) incidents_.push_back({rule.watch, rule.health, "DCGM_FR_XID_ERROR"});
    }
  }

  const HealthReadings& readings_;
  std::vector<Incident> incidents_;
};

}  // namespace

std::vector<Question> HealthQuestions() {
  std::vector<Question> questions = {
      {Quantity::kPcieReplays},
      {Quantity::kPcieGeneration},
      {Quantity::kPcieWidth},
      {Quantity::kInforomValid},
      {Quantity::kUnrepairableMemory},
      {Quantity::kFabricHealth},
      {Quantity::kPowerUsage},
      OfField(field::kEccDbeVolatileTotal),
      OfField(field::kRetiredDbe),
      OfField(field::kRetiredPending),
      {Quantity::kRetiredPages, 0},
      OfField(field::kRemappedUncorrectable),
      OfField(field::kRemappedFailure),
      OfField(field::kPerfPolicyThermal),
      OfField(field::kPerfPolicyPower),
      OfField(field::kNvLinkCrcFlitErrors + 6),
      OfField(field::kNvLinkCrcDataErrors + 6),
      OfField(field::kNvLinkReplayErrors + 6),
      OfField(field::kNvLinkRecoveryErrors + 6),
      OfLinks(field::kNvLinkCountEffectiveBer),
      OfLinks(field::kNvLinkCountSymbolBer),
      OfLinks(field::kNvLinkCountLinkRecoverySuccessfulEvents),
      OfLinks(field::kNvLinkCountLinkRecoveryFailedEvents),
      OfLinks(field::kNvLinkErrorDlCrc),
      OfLinks(field::kNvLinkErrorDlRecovery),
      OfLinks(field::kNvLinkErrorDlReplay),
      OfField(field::kGetGpuRecoveryAction),
  };
  questions.insert(questions.end(), kLinkErrors.begin(), kLinkErrors.end());
  for (unsigned link = 0; link < nvml::abi::kNvLinkCount; ++link) {
    questions.push_back({Quantity::kNvLinkState, static_cast<std::uint16_t>(link)});
  }
  return questions;
}

std::vector<Incident> FindIncidents(const HealthReadings& readings) {
  return Checks(readings).Run();
}

std::vector<Incident> StatusOfWatches(const std::vector<Incident>& incidents) {
  std::vector<Incident> status;
  for (const auto watch : kHealthWatches) {
    Incident of_watch{watch, Health::kPass, "DCGM_FR_OK"};
    for (const auto& incident : incidents) {
      if (incident.watch == watch) of_watch = incident;
    }
    status.push_back(of_watch);
  }
  return status;
}

}  // namespace pitcrew::node::metrics_exporter
