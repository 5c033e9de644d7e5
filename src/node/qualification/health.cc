#include "node/qualification/health.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "nvml/abi_metrics.h"

namespace pitcrew::node::qualification {
namespace {

using nvml::Quantity;
namespace field = nvml::abi::field;

constexpr unsigned kMostLinks = 18;
// nvmlNvLinkErrorCounter_t.
constexpr std::uint16_t kReplay = 0;
constexpr std::uint16_t kRecovery = 1;
constexpr std::uint16_t kCrcFlit = 2;
constexpr std::uint16_t kCrcData = 3;
constexpr std::uint16_t kEccData = 4;

// Questions in the order in which they are asked, and their answers by the same order.
class Questionnaire {
 public:
  void Add(Quantity quantity, unsigned number = 0, unsigned scope = 0) {
    questions_.push_back({quantity, static_cast<std::uint16_t>(number), scope});
  }
  [[nodiscard]] const std::vector<nvml::Question>& questions() const { return questions_; }
  void Fill(std::vector<nvml::Answer> answers) { answers_ = std::move(answers); }
  [[nodiscard]] std::optional<std::uint64_t> Number(const nvml::Question& question) const {
    const auto found = std::ranges::find(questions_, question);
    const auto position = static_cast<std::size_t>(found - questions_.begin());
    if (found == questions_.end() || position >= answers_.size()) return std::nullopt;
    const auto* number = std::get_if<std::int64_t>(&answers_[position]);
    if (number == nullptr) return std::nullopt;
    return static_cast<std::uint64_t>(*number);
  }
  [[nodiscard]] std::optional<bool> Flag(const nvml::Question& question) const {
    const auto number = Number(question);
    if (!number) return std::nullopt;
    return *number != 0;
  }

 private:
  std::vector<nvml::Question> questions_;
  std::vector<nvml::Answer> answers_;
};

nvml::Question FieldOf(unsigned number) {
  return {Quantity::kField, static_cast<std::uint16_t>(number), 0};
}
nvml::Question LinkState(unsigned link) {
  return {Quantity::kNvLinkState, static_cast<std::uint16_t>(link), 0};
}
nvml::Question LinkErrors(std::uint16_t counter, unsigned link) {
  return {Quantity::kNvLinkErrors, counter, link};
}

constexpr unsigned kFields[] = {field::kEccCurrent,           field::kEccDbeVolatileTotal,
                                field::kEccDbeAggregateTotal, field::kRemappedUncorrectable,
                                field::kRemappedPending,      field::kRemappedFailure,
                                field::kRetiredDbe,           field::kRetiredPending,
                                field::kGetGpuRecoveryAction};

Questionnaire MakeQuestionnaire() {
  Questionnaire asked;
  for (const unsigned number : kFields) asked.Add(Quantity::kField, number);
  asked.Add(Quantity::kSramThresholdExceeded);
  for (unsigned link = 0; link < kMostLinks; ++link) {
    asked.Add(Quantity::kNvLinkState, link);
    for (const auto counter : {kReplay, kRecovery, kCrcFlit, kCrcData, kEccData}) {
      asked.Add(Quantity::kNvLinkErrors, counter, link);
    }
  }
  return asked;
}

LinkHealth ReadLink(const Questionnaire& asked, unsigned link, bool up) {
  LinkHealth health;
  health.link = link;
  health.up = up;
  health.replays = asked.Number(LinkErrors(kReplay, link));
  health.recoveries = asked.Number(LinkErrors(kRecovery, link));
  health.ecc_errors = asked.Number(LinkErrors(kEccData, link));
  const auto flits = asked.Number(LinkErrors(kCrcFlit, link));
  const auto data = asked.Number(LinkErrors(kCrcData, link));
  if (flits || data) health.crc_errors = flits.value_or(0) + data.value_or(0);
  return health;
}

}  // namespace

base::Result<Health> ReadHealth(nvml::Meter& meter, const std::string& uuid) {
  auto asked = MakeQuestionnaire();
  nvml::Part whole;
  whole.questions = asked.questions();
  auto gpus = meter.Read({{uuid, {whole}}});
  TRY_ASSIGN(auto answers, std::move(gpus.at(0)));
  asked.Fill(std::move(answers.parts.at(0).answers));

  Health health;
  health.ecc_enabled = asked.Flag(FieldOf(field::kEccCurrent));
  health.uncorrected = asked.Number(FieldOf(field::kEccDbeVolatileTotal));
  health.uncorrected_ever = asked.Number(FieldOf(field::kEccDbeAggregateTotal));
  health.sram_threshold_passed = asked.Number({Quantity::kSramThresholdExceeded});
  health.rows_remapped = asked.Number(FieldOf(field::kRemappedUncorrectable));
  health.remapping_pending = asked.Flag(FieldOf(field::kRemappedPending));
  health.remapping_failed = asked.Flag(FieldOf(field::kRemappedFailure));
  health.pages_retired = asked.Number(FieldOf(field::kRetiredDbe));
  health.retirement_pending = asked.Flag(FieldOf(field::kRetiredPending));
  if (const auto action = asked.Number(FieldOf(field::kGetGpuRecoveryAction))) {
    health.recovery_action = static_cast<unsigned>(*action);
  }
  for (unsigned link = 0; link < kMostLinks; ++link) {
    if (const auto up = asked.Flag(LinkState(link))) {
      health.links.push_back(ReadLink(asked, link, *up));
    }
  }
  return health;
}

bool AreNvLinksSwitchedOff(const std::filesystem::path& proc) {
  const auto text = base::ReadFile(proc / "driver/nvidia/params");
  if (!text) return false;
  for (const std::string_view line : base::Split(*text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || line.substr(0, colon) != "NvLinkDisable") continue;
    return base::Trim(line.substr(colon + 1)) == "1";
  }
  return false;
}

}  // namespace pitcrew::node::qualification
