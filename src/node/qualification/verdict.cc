#include "node/qualification/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "node/qualification/model.h"
#include "nvml/abi_metrics.h"
#include "nvml/nvml.h"

namespace pitcrew::node::qualification {
namespace {

constexpr double kGiga = 1e9;
constexpr double kGibi = 1024.0 * 1024 * 1024;

Check Make(std::string_view name, Outcome outcome, std::string text) {
  Check check;
  check.name = name;
  check.outcome = outcome;
  check.text = std::move(text);
  return check;
}

Check Unmeasured(std::string_view name, const Measurement& measurement, const base::Error& error) {
  if (measurement.divided) {
    return Make(name, Outcome::kUnknown,
                "not measured: the GPU is divided by MIG, and parts of it are not tested");
  }
  // That the GPU could not do its work is a finding, not a gap.
  return Make(name, Outcome::kFailed, error.message);
}

Check JudgeMemory(const Measurement& measurement) {
  constexpr std::string_view kName = "memory";
  if (!measurement.memory) return Unmeasured(kName, measurement, measurement.memory.error());
  const auto& test = measurement.memory->memory;
  if (!test) return Make(kName, Outcome::kUnknown, "not measured");
  const double tested = static_cast<double>(test->tested) / kGibi;
  Check check = Make(kName, Outcome::kPassed,
                     fmt::format("{:.2f} GiB hold {} patterns", tested, test->patterns));
  check.value = tested;
  check.unit = "GiB";
  if (test->wrong_words > 0) {
    check.outcome = Outcome::kFailed;
    const WrongWord first = test->first.value_or(WrongWord());
    check.text = fmt::format(
        "{} wrong words in {:.2f} GiB; the first at byte {}: written {:#010x}, read {:#010x}",
        test->wrong_words, tested, first.position, first.written, first.read);
  } else if (test->tested == 0) {
    check.outcome = Outcome::kFailed;
    check.text = "no memory could be had to test";
  } else if (test->tested < test->asked) {
    check.outcome = Outcome::kNoted;
    check.text += fmt::format("; the GPU gave no more of the {:.2f} GiB that were to be tested",
                              static_cast<double>(test->asked) / kGibi);
  }
  return check;
}

// `whole`: what bus or memory could carry, GB/s; 0: nothing is expected.
Check JudgeBandwidth(std::string_view name, double bytes_per_second, double whole) {
  Check check = Make(name, Outcome::kUnknown, "");
  check.value = bytes_per_second / kGiga;
  check.unit = "GB/s";
  if (whole <= 0) {
    check.text = fmt::format("{:.1f} GB/s; nothing to judge it by", *check.value);
    return check;
  }
  check.least = kLeastShare * whole;
  check.outcome = *check.value >= *check.least ? Outcome::kPassed : Outcome::kFailed;
  check.text = fmt::format("{:.1f} GB/s, at least {:.1f} are expected", *check.value, *check.least);
  return check;
}

// What PCIe could carry: lanes of the model, in the generation that board and slot can do together.
double ExpectedPcie(const Model* model, const Exercise& exercise) {
  if (model == nullptr || model->pcie_generation == 0) return 0;
  const auto slot = exercise.load ? exercise.load->highest_pcie_generation : std::nullopt;
  return PcieBandwidth(std::min(model->pcie_generation, slot.value_or(model->pcie_generation)),
                       model->pcie_width);
}

void JudgeBandwidths(const Measurement& measurement, const Model* model,
                     std::vector<Check>& checks) {
  constexpr std::string_view kNames[] = {"host-to-device", "device-to-host", "device-memory"};
  if (!measurement.bandwidths || !measurement.bandwidths->bandwidths) {
    for (const auto name : kNames) {
      checks.push_back(measurement.bandwidths
                           ? Make(name, Outcome::kUnknown, "not measured")
                           : Unmeasured(name, measurement, measurement.bandwidths.error()));
    }
    return;
  }
  const Bandwidths& seen = *measurement.bandwidths->bandwidths;
  const double pcie = ExpectedPcie(model, *measurement.bandwidths);
  checks.push_back(JudgeBandwidth(kNames[0], seen.to_device, pcie));
  checks.push_back(JudgeBandwidth(kNames[1], seen.from_device, pcie));
  checks.push_back(JudgeBandwidth(kNames[2], seen.within_device,
                                  model != nullptr ? model->memory_bandwidth : 0));
}

// Of the GPU that sent: which of the two is at fault, or what lies between, nobody can tell.
Check JudgePeer(const Measurement& measurement, const Model* model) {
  constexpr std::string_view kName = "gpu-to-gpu";
  if (!measurement.peer) return Make(kName, Outcome::kFailed, measurement.peer.error().message);
  const auto& copy = measurement.peer->peer;
  if (!copy) return Make(kName, Outcome::kUnknown, "not measured");
  if (copy->wrong_words > 0) {
    return Make(kName, Outcome::kFailed,
                fmt::format("{} words arrived at GPU {} other than they were sent",
                            copy->wrong_words, *measurement.peer_index));
  }
  const bool switched = model != nullptr && model->links == Links::kSwitched;
  const bool judged = switched && copy->direct && !measurement.links_switched_off;
  Check check = JudgeBandwidth(kName, copy->bytes_per_second, judged ? model->nvlink_bandwidth : 0);
  check.text = fmt::format("to GPU {}: {}", *measurement.peer_index, check.text);
  if (!copy->direct) {
    check.outcome = switched ? Outcome::kNoted : Outcome::kUnknown;
    check.text += "; by way of the host: the driver has no direct way between the two";
  }
  return check;
}

Check JudgePcie(const Measurement& measurement, const Model* model) {
  constexpr std::string_view kName = "pcie";
  const auto* load = measurement.bandwidths && measurement.bandwidths->load
                         ? &*measurement.bandwidths->load
                         : nullptr;
  if (load == nullptr || !load->pcie_generation || !load->pcie_width) {
    return Make(kName, Outcome::kUnknown, "the driver does not tell of the PCIe link under load");
  }
  const unsigned generation = *load->pcie_generation;
  const unsigned width = *load->pcie_width;
  const std::string seen = fmt::format("generation {}, {} lanes", generation, width);
  const unsigned possible = load->highest_pcie_generation.value_or(0);
  const unsigned lanes = load->highest_pcie_width.value_or(0);
  if (generation < possible || width < lanes) {
    return Make(kName, Outcome::kFailed,
                fmt::format("{} under load; board and slot can do generation {} with {} lanes",
                            seen, possible, lanes));
  }
  if (model == nullptr || model->pcie_generation == 0) return Make(kName, Outcome::kPassed, seen);
  if (width < model->pcie_width) {
    return Make(
        kName, Outcome::kFailed,
        fmt::format("{}; the model ({}) has {} lanes", seen, model->name, model->pcie_width));
  }
  if (generation < model->pcie_generation) {
    return Make(kName, Outcome::kNoted,
                fmt::format("{}: the slot can do no more; the model ({}) could do generation {}",
                            seen, model->name, model->pcie_generation));
  }
  return Make(kName, Outcome::kPassed, seen);
}

// Why clocks are held down: by heat, or by what the board's or the node's power supply does. That
// the software keeps to a power limit is how a busy GPU looks.
Check JudgeClocks(const Measurement& measurement) {
  using namespace nvml::abi;
  constexpr std::string_view kName = "clocks";
  struct Reason {
    std::uint64_t bit;
    std::string_view words;
  };
  constexpr Reason kBad[] = {{kClocksHwThermalSlowdown, "heat (hardware)"},
                             {kClocksSwThermalSlowdown, "heat (software)"},
                             {kClocksHwPowerBrakeSlowdown, "the node's power supply (power brake)"},
                             {kClocksHwSlowdown, "the hardware (slowdown)"}};
  const auto* load = measurement.bandwidths && measurement.bandwidths->load
                         ? &*measurement.bandwidths->load
                         : nullptr;
  if (load == nullptr || !load->clock_reasons) {
    return Make(kName, Outcome::kUnknown, "the driver does not tell of clocks under load");
  }
  std::vector<std::string> reasons;
  for (const auto& reason : kBad) {
    if ((*load->clock_reasons & reason.bit) != 0) reasons.emplace_back(reason.words);
  }
  const unsigned clock = load->sm_clock_mhz.value_or(0);
  const unsigned highest = load->highest_sm_clock_mhz.value_or(0);
  Check check = Make(kName, Outcome::kPassed, fmt::format("{} of {} MHz", clock, highest));
  if (load->sm_clock_mhz) {
    check.value = clock;
    check.unit = "MHz";
  }
  if (!reasons.empty()) {
    check.outcome = Outcome::kFailed;
    check.text += "; held down by " + base::Join(reasons, ", ");
  } else if ((*load->clock_reasons & kClocksGpuIdle) != 0) {
    check.outcome = Outcome::kUnknown;
    check.text += "; not judged: the GPU said that it was idle";
  } else if (load->sm_clock_mhz && highest > 0) {
    // Slowdowns by hardware halve clocks or more, also where the driver tells no reason.
    check.least = highest / 2.0;
    if (clock < *check.least) {
      check.outcome = Outcome::kFailed;
      check.text += ": less than half";
    } else if ((*load->clock_reasons & kClocksSwPowerCap) != 0) {
      check.outcome = Outcome::kNoted;
      check.text += "; held down by its power limit";
    }
  }
  return check;
}

bool IsPositive(const std::optional<std::uint64_t>& count) { return count.value_or(0) > 0; }

Check JudgeEcc(const Health& health) {
  constexpr std::string_view kName = "ecc";
  if (!health.ecc_enabled) return Make(kName, Outcome::kUnknown, "the driver tells of no ECC");
  if (IsPositive(health.uncorrected)) {
    return Make(
        kName, Outcome::kFailed,
        fmt::format("{} uncorrected errors since the driver was loaded", *health.uncorrected));
  }
  if (IsPositive(health.sram_threshold_passed)) {
    return Make(kName, Outcome::kFailed, "more errors of its SRAM than the board may have");
  }
  if (!*health.ecc_enabled) return Make(kName, Outcome::kNoted, "ECC is off");
  if (IsPositive(health.uncorrected_ever)) {
    return Make(kName, Outcome::kNoted,
                fmt::format("none since the driver was loaded; {} uncorrected errors in its life",
                            *health.uncorrected_ever));
  }
  return Make(kName, Outcome::kPassed, "no uncorrected error");
}

Check JudgeRows(const Health& health) {
  constexpr std::string_view kName = "remapped-rows";
  constexpr std::uint64_t kMostRows = 512;
  constexpr std::uint64_t kMostPages = 63;
  if (health.remapping_failed.value_or(false)) {
    return Make(kName, Outcome::kFailed,
                "a row could not be remapped: the memory has no row left for it");
  }
  if (health.remapping_pending.value_or(false)) {
    return Make(kName, Outcome::kFailed, "rows wait to be remapped: the GPU needs a reset");
  }
  if (IsPositive(health.pages_retired) && *health.pages_retired >= kMostPages) {
    return Make(
        kName, Outcome::kFailed,
        fmt::format("{} pages are retired; {} are too many", *health.pages_retired, kMostPages));
  }
  if (health.retirement_pending.value_or(false)) {
    return Make(kName, Outcome::kNoted, "pages wait to be retired: the GPU needs a reset");
  }
  if (IsPositive(health.pages_retired)) {
    return Make(kName, Outcome::kNoted, fmt::format("{} pages are retired", *health.pages_retired));
  }
  if (IsPositive(health.rows_remapped)) {
    return Make(
        kName, Outcome::kNoted,
        fmt::format("{} rows are remapped for uncorrected errors{}", *health.rows_remapped,
                    *health.rows_remapped >= kMostRows ? ": more than boards should have" : ""));
  }
  if (!health.remapping_pending && !health.pages_retired) {
    return Make(kName, Outcome::kUnknown, "the driver tells of no remapped rows or retired pages");
  }
  return Make(kName, Outcome::kPassed, "none");
}

Check JudgeRecovery(const Health& health) {
  constexpr std::string_view kName = "recovery";
  if (!health.recovery_action) {
    return Make(kName, Outcome::kUnknown,
                "the driver does not tell whether the GPU needs recovery");
  }
  const auto action = static_cast<nvml::RecoveryAction>(*health.recovery_action);
  if (action == nvml::RecoveryAction::kNone) {
    return Make(kName, Outcome::kPassed, "the driver asks for none");
  }
  return Make(kName, Outcome::kFailed,
              fmt::format("the driver asks to {}", nvml::ToString(action)));
}

// Of the same link in what was read before; what was not read counts as now, so that nothing grew.
std::uint64_t Growth(const Health& before, const LinkHealth& now,
                     std::optional<std::uint64_t> LinkHealth::* counter) {
  const auto link = std::ranges::find(before.links, now.link, &LinkHealth::link);
  const std::uint64_t last = (now.*counter).value_or(0);
  const std::uint64_t first = link == before.links.end() ? last : ((*link).*counter).value_or(last);
  return last > first ? last - first : 0;
}

// An administrator's decision (as in a virtual machine that gets one GPU of a board) is no fault.
Check JudgeLinks(const Health& before, const Health& after, const Model* model,
                 bool links_switched_off) {
  constexpr std::string_view kName = "nvlink";
  std::vector<std::string> down;
  std::vector<std::string> erring;
  std::vector<std::string> noted;
  for (const auto& link : after.links) {
    if (!link.up) down.push_back(std::to_string(link.link));
    if (Growth(before, link, &LinkHealth::replays) > 0 ||
        Growth(before, link, &LinkHealth::recoveries) > 0 ||
        Growth(before, link, &LinkHealth::ecc_errors) > 0) {
      erring.push_back(std::to_string(link.link));
    } else if (IsPositive(link.replays) || IsPositive(link.recoveries) ||
               IsPositive(link.crc_errors) || IsPositive(link.ecc_errors)) {
      noted.push_back(std::to_string(link.link));
    }
  }
  const std::size_t up = after.links.size() - down.size();
  const bool has_links = model == nullptr || model->nvlinks > 0;
  if (links_switched_off && has_links && after.links.empty()) {
    return Make(kName, Outcome::kNoted,
                "the driver was loaded with NVreg_NvLinkDisable=1 and uses none");
  }
  const bool all_must_be_up = model != nullptr && model->links == Links::kSwitched;
  if (all_must_be_up && up < model->nvlinks) {
    return Make(
        kName, Outcome::kFailed,
        fmt::format("{} links are up; the model ({}) has {}{}", up, model->name, model->nvlinks,
                    down.empty() ? "" : "; down: " + base::Join(down, ", ")));
  }
  if (up > 0 && !down.empty()) {
    return Make(kName, Outcome::kFailed,
                fmt::format("{} links are up, and these are down: {}", up, base::Join(down, ", ")));
  }
  if (!erring.empty()) {
    return Make(
        kName, Outcome::kFailed,
        fmt::format("errors were counted during the test on links {}", base::Join(erring, ", ")));
  }
  if (up == 0) {
    return Make(kName, has_links ? Outcome::kUnknown : Outcome::kPassed,
                has_links ? "no link is up" : "the model has none");
  }
  if (!noted.empty()) {
    return Make(kName, Outcome::kNoted,
                fmt::format("{} links are up; errors were counted before on links {}", up,
                            base::Join(noted, ", ")));
  }
  return Make(kName, Outcome::kPassed, fmt::format("{} links are up, without errors", up));
}

}  // namespace

std::string_view ToString(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kNoted:
      return "noted";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kUnknown:
      break;
  }
  return "unknown";
}

bool GpuReport::passed() const {
  return !checks.empty() && std::ranges::none_of(checks, [](const Check& check) {
    return check.outcome == Outcome::kFailed;
  });
}

std::vector<std::string> GpuReport::Failures() const {
  std::vector<std::string> failures;
  for (const auto& check : checks) {
    if (check.outcome == Outcome::kFailed) failures.push_back(check.name + ": " + check.text);
  }
  return failures;
}

GpuReport Judge(const Measurement& measurement) {
  GpuReport report{.index = measurement.index,
                   .uuid = measurement.uuid,
                   .name = measurement.name,
                   .pci = measurement.pci,
                   .model = "",
                   .checks = {}};
  if (measurement.unreadable) {
    report.checks.push_back(Make("readable", Outcome::kFailed, measurement.unreadable->message));
    return report;
  }
  const Model* model = FindModel(measurement.pci_device_id);
  if (model != nullptr) report.model = model->name;
  report.checks.push_back(JudgeMemory(measurement));
  JudgeBandwidths(measurement, model, report.checks);
  if (measurement.peer_index) report.checks.push_back(JudgePeer(measurement, model));
  report.checks.push_back(JudgePcie(measurement, model));
  report.checks.push_back(JudgeClocks(measurement));
  if (!measurement.after) {
    report.checks.push_back(Make("health", Outcome::kFailed, measurement.after.error().message));
    return report;
  }
  const Health& after = *measurement.after;
  report.checks.push_back(JudgeEcc(after));
  report.checks.push_back(JudgeRows(after));
  report.checks.push_back(JudgeRecovery(after));
  report.checks.push_back(JudgeLinks(measurement.before ? *measurement.before : after, after, model,
                                     measurement.links_switched_off));
  return report;
}

}  // namespace pitcrew::node::qualification
