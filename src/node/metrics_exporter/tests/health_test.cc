// From readings to DCGM's codes of what is wrong.
#include "node/metrics_exporter/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nvml/abi_metrics.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using namespace std::chrono_literals;
using nvml::Quantity;
using nvml::Question;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Health, EachConditionHasItsCode) {
  std::map<Question, std::int64_t> answers;
  std::map<Question, CounterHistory::Growth> growths;
  HealthReadings readings;
  readings.answer = [&](const Question& question) -> std::optional<std::int64_t> {
    const auto found = answers.find(question);
    if (found == answers.end()) return std::nullopt;
    return found->second;
  };
  readings.growth = [&](const Question& question) -> std::optional<CounterHistory::Growth> {
    const auto found = growths.find(question);
    if (found == growths.end()) return std::nullopt;
    return found->second;
  };
  namespace field = nvml::abi::field;
  const auto of_field = [](unsigned number) {
    return Question{Quantity::kField, static_cast<std::uint16_t>(number)};
  };
  EXPECT_THAT(FindIncidents(readings), IsEmpty()) << "what is not known is no incident";
  answers[of_field(field::kEccDbeVolatileTotal)] = 1;
  EXPECT_THAT(FindIncidents(readings),
              ElementsAre(Incident{"MEM", Health::kFailure, "DCGM_FR_VOLATILE_DBE_DETECTED"}));
  answers = {{of_field(field::kRemappedUncorrectable), 512}};
  EXPECT_THAT(
      FindIncidents(readings),
      ElementsAre(Incident{"MEM", Health::kWarning, "DCGM_FR_UNCORRECTABLE_ROW_REMAP_LIMIT"}));
  answers = {{of_field(field::kGetGpuRecoveryAction), 2}};
  EXPECT_THAT(FindIncidents(readings),
              ElementsAre(Incident{"DRIVER", Health::kFailure, "DCGM_FR_GPU_RECOVERY_REBOOT"}));
  answers = {{{Quantity::kUnrepairableMemory}, 1}};
  EXPECT_THAT(FindIncidents(readings),
              ElementsAre(Incident{"MEM", Health::kFailure, "DCGM_FR_FAULTY_MEMORY"}));
  // 16 lanes of generation 4: 15.36 a minute, rounded up.
  answers = {{{Quantity::kPcieGeneration}, 4}, {{Quantity::kPcieWidth}, 16}};
  growths = {{{Quantity::kPcieReplays}, {8, 30s}}};
  EXPECT_THAT(FindIncidents(readings), IsEmpty());
  growths = {{{Quantity::kPcieReplays}, {9, 30s}}};
  EXPECT_THAT(FindIncidents(readings),
              ElementsAre(Incident{"PCIE", Health::kWarning, "DCGM_FR_PCI_REPLAY_RATE"}));
}

// metrics-exporter.md section 11, NVLINK; the limits of rates are DCGM's.
class LinksHealth : public ::testing::Test {
 protected:
  LinksHealth() {
    readings_.answer = [this](const Question& question) -> std::optional<std::int64_t> {
      const auto found = answers_.find(question);
      if (found == answers_.end()) return std::nullopt;
      return found->second;
    };
    readings_.growth = [this](const Question& question) -> std::optional<CounterHistory::Growth> {
      const auto found = growths_.find(question);
      if (found == growths_.end()) return std::nullopt;
      return found->second;
    };
  }
  static Question OfLinks(unsigned number) {
    return {Quantity::kField, static_cast<std::uint16_t>(number), kAllLinks};
  }
  [[nodiscard]] Incident State() const { return StatusOfWatches(FindIncidents(readings_))[1]; }

  const Incident critical_{"NVLINK", Health::kFailure, "DCGM_FR_NVLINK_ERROR_CRITICAL"};
  std::map<Question, std::int64_t> answers_;
  std::map<Question, CounterHistory::Growth> growths_;
  HealthReadings readings_;
};

TEST_F(LinksHealth, GrowingCounters) {
  namespace field = nvml::abi::field;
  for (const unsigned number : {206, 207, 208, 209, 210, 211, 215, 219, 221}) {
    growths_ = {{OfLinks(number), {0, 30s}}};
    EXPECT_EQ(State().health, Health::kPass) << number;
    growths_ = {{OfLinks(number), {1, 30s}}};
    EXPECT_EQ(State(), critical_) << number;
  }
  growths_ = {{{Quantity::kField, 160}, {1, 30s}}};
  EXPECT_EQ(State(), critical_);
  // Errors of transfer are few or many: a hundred in a second.
  for (const unsigned first : {field::kNvLinkCrcFlitErrors, field::kNvLinkCrcDataErrors}) {
    const Question all{Quantity::kField, static_cast<std::uint16_t>(first + 6)};
    growths_ = {{all, {3000, 30s}}};
    EXPECT_EQ(State(),
              (Incident{"NVLINK", Health::kFailure, "DCGM_FR_NVLINK_CRC_ERROR_THRESHOLD"}));
    growths_ = {{all, {2999, 30s}}};
    EXPECT_EQ(State(), (Incident{"NVLINK", Health::kWarning, "DCGM_FR_NVLINK_ERROR_THRESHOLD"}));
    growths_ = {{all, {0, 30s}}};
    EXPECT_EQ(State().health, Health::kPass);
    growths_ = {{all, {3000, 0s}}};
    EXPECT_EQ(State().health, Health::kPass) << "no time has passed";
  }
}

TEST_F(LinksHealth, RatesOfBitErrors) {
  namespace field = nvml::abi::field;
  const auto raw = [](std::int64_t mantissa, std::int64_t exponent) {
    return mantissa << 8 | exponent;
  };
  const Incident effective{"NVLINK", Health::kFailure, "DCGM_FR_NVLINK_EFFECTIVE_BER_THRESHOLD"};
  for (const auto good : {raw(15, 255), raw(1, 12), raw(10, 13), raw(15, 14)}) {
    answers_ = {{OfLinks(field::kNvLinkCountEffectiveBer), good}};
    EXPECT_EQ(State().health, Health::kPass) << good;
  }
  for (const auto bad : {raw(2, 12), raw(11, 13), raw(1, 11), raw(15, 8)}) {
    answers_ = {{OfLinks(field::kNvLinkCountEffectiveBer), bad}};
    EXPECT_EQ(State(), effective) << bad;
  }
  const Incident symbols{"NVLINK", Health::kFailure, "DCGM_FR_NVLINK_SYMBOL_BER_THRESHOLD"};
  answers_ = {{OfLinks(field::kNvLinkCountSymbolBer), raw(15, 255)}};
  EXPECT_EQ(State().health, Health::kPass);
  answers_ = {{OfLinks(field::kNvLinkCountSymbolBer), raw(1, 254)}};
  EXPECT_EQ(State(), symbols);
  readings_.is_blackwell = true;
  EXPECT_EQ(State().health, Health::kPass);
  answers_ = {{OfLinks(field::kNvLinkCountSymbolBer), raw(0, 1)}};
  EXPECT_EQ(State().health, Health::kPass) << "a rate of 0";
  answers_ = {{OfLinks(field::kNvLinkCountSymbolBer), raw(1, 237)}};
  EXPECT_EQ(State(), symbols);
}

TEST_F(LinksHealth, RecoveriesAndLinksThatAreDown) {
  namespace field = nvml::abi::field;
  readings_.is_blackwell = true;
  answers_ = {{OfLinks(field::kNvLinkCountLinkRecoverySuccessfulEvents), 1}};
  EXPECT_EQ(State().health, Health::kWarning);
  answers_ = {{OfLinks(field::kNvLinkCountLinkRecoveryFailedEvents), 1}};
  EXPECT_EQ(State(), critical_);
  answers_ = {{OfLinks(field::kNvLinkErrorDlCrc), 1}};
  EXPECT_EQ(State().health, Health::kPass) << "counted until Hopper";
  readings_.is_blackwell = false;
  EXPECT_EQ(State(), critical_);
  answers_ = {{OfLinks(field::kNvLinkErrorDlReplay), 0}};
  EXPECT_EQ(State().health, Health::kPass);

  answers_ = {{{Quantity::kNvLinkState, 0}, 1}, {{Quantity::kNvLinkState, 1}, 0}};
  EXPECT_EQ(State(), (Incident{"NVLINK", Health::kFailure, "DCGM_FR_NVLINK_DOWN"}));
  readings_.is_divided = true;
  EXPECT_EQ(State().health, Health::kPass);
}

TEST(Health, PowerThatCannotBeRead) {
  HealthReadings readings;
  readings.answer = [](const Question&) { return std::nullopt; };
  readings.growth = [](const Question&) { return std::nullopt; };
  EXPECT_THAT(FindIncidents(readings), IsEmpty()) << "not supported";
  readings.failed = [](const Question& question) {
    return question == Question{Quantity::kPowerUsage};
  };
  EXPECT_THAT(FindIncidents(readings),
              ElementsAre(Incident{"POWER", Health::kWarning, "DCGM_FR_POWER_UNREADABLE"}));
}

// The mask's answers of two bits, and one of four; 0x1aa is a fabric in which all is well.
TEST(Health, TheFabricHasItsCodes) {
  HealthReadings readings;
  std::int64_t mask = 0;
  readings.growth = [](const Question&) { return std::nullopt; };
  readings.answer = [&](const Question& question) -> std::optional<std::int64_t> {
    if (question.quantity != Quantity::kFabricHealth) return std::nullopt;
    return mask;
  };
  const Incident violation{"NVLINK", Health::kFailure, "DCGM_FR_FIELD_VIOLATION"};
  for (const std::int64_t well : {0x000, 0x1aa, 0x0aa, 0x1aa | 0x1000}) {
    mask = well;
    EXPECT_THAT(FindIncidents(readings), IsEmpty()) << mask;
  }
  for (const std::int64_t wrong : {0x1a9, 0x1a6, 0x19a, 0x16a, 0x2aa, 0x8aa}) {
    mask = wrong;
    EXPECT_THAT(FindIncidents(readings), ElementsAre(violation)) << mask;
  }
  mask = 0;
  const auto probed = [&](std::uint8_t state, std::uint32_t status) {
    readings.fabric = {state, status};
    const auto incidents = FindIncidents(readings);
    return incidents.empty() ? Health::kPass : incidents.front().health;
  };
  EXPECT_EQ(probed(0, 0), Health::kPass) << "not supported";
  EXPECT_EQ(probed(1, 0), Health::kFailure) << "not started";
  EXPECT_EQ(probed(2, 0), Health::kWarning) << "in progress";
  EXPECT_EQ(probed(3, 0), Health::kPass);
  EXPECT_EQ(probed(3, 999), Health::kFailure);
  EXPECT_EQ(FindIncidents(readings).front().code, "DCGM_FR_FABRIC_PROBE_STATE");
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter
