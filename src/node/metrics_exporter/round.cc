#include "node/metrics_exporter/round.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "node/metrics_exporter/health.h"
#include "node/metrics_exporter/values.h"
#include "nvml/abi_metrics.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using nvml::Answer;
using nvml::Quantity;
using nvml::Question;

constexpr std::string_view kNoSuchEntity = "these GPUs have no part that it is about";
constexpr std::string_view kNoGpu = "no GPU could be read";

bool Belongs(Level level, const PlannedEntity& planned) {
  switch (level) {
    case Level::kNone:
      return true;
    case Level::kGpu:
    case Level::kInstance:
      return planned.entity.group == Group::kGpu;
    case Level::kLink:
      return planned.entity.group == Group::kLink;
    default:
      return false;
  }
}

bool IsNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

class Builder {
 public:
  Builder(const RoundInput& input, History& history) : input_(input), history_(history) {}

  Round Build() {
    NoteGpus();
    for (const auto& planned : input_.plan.entities) {
      if (!input_.answers[planned.question_set]) continue;
      present_.push_back(&planned);
      round_.entities.push_back(planned.entity);
      round_.entities.back().processes = PartOf(planned, PartFor(planned)).processes;
    }
    SampleClockEvents();
    for (const auto& counter : input_.counters) {
      if (counter.IsLabel()) AddLabel(counter);
    }
    for (auto& entity : round_.entities) std::ranges::sort(entity.info);
    for (const auto& counter : input_.counters) {
      if (!counter.IsLabel()) AddFamily(counter);
    }
    std::ranges::stable_sort(round_.families, [](const Family& a, const Family& b) {
      return std::tuple(a.counter.Order(), std::string_view(a.counter.name)) <
             std::tuple(b.counter.Order(), std::string_view(b.counter.name));
    });
    const auto longest = std::max(input_.windows.xids, input_.windows.clock_events);
    history_.xids.Trim(input_.now, longest);
    history_.clock_events.Trim(input_.now, longest);
    return std::move(round_);
  }

 private:
  void NoteGpus() {
    std::vector<std::string> known;
    for (const auto& device : input_.inventory.devices) {
      for (const auto& mig : device.mig_devices) {
        round_.mig_devices[mig.uuid] = fmt::format("{}-{}", device.index, mig.gpu_instance_id);
      }
      GpuState state{std::to_string(device.index), device.uuid, device.fault};
      if (!device.uuid.empty()) known.push_back(device.uuid);
      for (std::size_t i = 0; i < input_.plan.questions.size(); ++i) {
        const bool asked = input_.plan.questions[i].uuid == device.uuid;
        if (asked && !input_.answers[i]) state.fault = input_.answers[i].error();
      }
      round_.gpus.push_back(std::move(state));
    }
    history_.counters.Keep(known);
  }

  // The part that answers what an instance answers itself.
  static std::size_t PartFor(const PlannedEntity& planned) { return planned.part; }

  [[nodiscard]] const nvml::PartAnswers& PartOf(const PlannedEntity& planned,
                                                std::size_t part) const {
    return input_.answers[planned.question_set]->parts[part];
  }

  [[nodiscard]] const gpu::Device& DeviceOf(const PlannedEntity& planned) const {
    return input_.inventory.devices[planned.gpu];
  }

  [[nodiscard]] const Answer& AnswerOf(const PlannedEntity& planned, std::size_t part,
                                       const Question& question) const {
    static const Answer kNone = nvml::Silence::kFailed;
    const auto& questions = input_.plan.questions[planned.question_set].parts[part].questions;
    const auto found = std::ranges::lower_bound(questions, question);
    if (found == questions.end() || *found != question) return kNone;
    const auto position = static_cast<std::size_t>(found - questions.begin());
    return PartOf(planned, part).answers[position];
  }

  [[nodiscard]] std::optional<std::int64_t> NumberOf(const PlannedEntity& planned, std::size_t part,
                                                     const Question& question) const {
    const auto& answer = AnswerOf(planned, part, question);
    if (const auto* number = std::get_if<std::int64_t>(&answer)) return *number;
    return std::nullopt;
  }

  [[nodiscard]] TimePoint TimeOf(const PlannedEntity& planned) const {
    return input_.answers[planned.question_set]->time;
  }

  [[nodiscard]] static std::optional<unsigned> InstanceOf(const PlannedEntity& planned) {
    if (planned.instance == nullptr) return std::nullopt;
    return planned.instance->gpu_instance_id;
  }

  Value Evaluate(const Field& asked, const PlannedEntity& planned) {
    const std::size_t part = asked.level == Level::kInstance ? PartFor(planned) : 0;
    if (planned.instance != nullptr && IsProfiling(asked) && asked.level != Level::kInstance) {
      return std::unexpected(std::string_view("instances do not have it, only whole GPUs"));
    }
    switch (asked.source.kind) {
      case Source::Kind::kQuestion:
      case Source::Kind::kLinkGpm:
        return Convert(asked.source.conversion,
                       AnswerOf(planned, part, QuestionFor(asked, planned.link)));
      case Source::Kind::kFact:
        return FactValue(asked.source.fact, input_.inventory, DeviceOf(planned), planned.instance);
      case Source::Kind::kLinkRate:
        return LinkRate(asked, planned);
      case Source::Kind::kUsedShare:
        return UsedShare(planned, part);
      case Source::Kind::kXid: {
        const auto last = history_.xids.Last(DeviceOf(planned).uuid, InstanceOf(planned));
        if (!last) return std::unexpected(std::string_view("there was no XID since the start"));
        return static_cast<std::int64_t>(*last);
      }
      case Source::Kind::kNothing:
        break;
    }
    return std::unexpected(asked.source.reason);
  }

  Value LinkRate(const Field& asked, const PlannedEntity& planned) {
    const auto scope = planned.link ? *planned.link : asked.source.question.scope;
    constexpr double kThousand = 1000;
    double rate = 0;
    for (const auto direction : {Direction::kSent, Direction::kReceived}) {
      if (asked.source.direction != Direction::kBoth && asked.source.direction != direction) {
        continue;
      }
      const auto question = LinkCounterQuestion(direction, scope);
      const auto& answer = AnswerOf(planned, 0, question);
      const auto* value = std::get_if<std::int64_t>(&answer);
      if (value == nullptr) return Convert(Conversion::kAsIs, answer);
      const auto growth =
          history_.counters.Advance(DeviceOf(planned).uuid, question, TimeOf(planned), *value);
      if (!growth || growth->over.count() <= 0) continue;
      rate += static_cast<double>(growth->by) / growth->over.count() / kThousand;
    }
    return static_cast<std::int64_t>(rate);
  }

  [[nodiscard]] Value UsedShare(const PlannedEntity& planned, std::size_t part) const {
    const auto total = NumberOf(planned, part, {Quantity::kMemoryTotal});
    const auto used = NumberOf(planned, part, {Quantity::kMemoryUsed});
    const auto reserved = NumberOf(planned, part, {Quantity::kMemoryReserved});
    if (!total || !used || !reserved || *total <= *reserved) {
      const auto reserved_too =
          Convert(Conversion::kAsIs, AnswerOf(planned, part, {Quantity::kMemoryReserved}));
      return std::unexpected(reserved_too ? Reason(nvml::Silence::kFailed) : reserved_too.error());
    }
    return static_cast<double>(*used) / static_cast<double>(*total - *reserved);
  }

  void AddLabel(const Counter& counter) {
    if (counter.field == nullptr) return;
    for (std::size_t i = 0; i < present_.size(); ++i) {
      if (!Belongs(counter.field->level, *present_[i])) continue;
      auto value = FormatValue(counter.field->type, Evaluate(*counter.field, *present_[i]));
      if (value) round_.entities[i].info.emplace_back(counter.name, *std::move(value));
    }
  }

  void AddFamily(const Counter& counter) {
    Family family{counter, {}, std::string(present_.empty() ? kNoGpu : kNoSuchEntity)};
    if (counter.field != nullptr) {
      AddSamples(*counter.field, family);
    } else {
      AddDerived(counter.derived, family);
    }
    round_.families.push_back(std::move(family));
  }

  void AddSamples(const Field& asked, Family& family) {
    if (asked.source.kind == Source::Kind::kNothing) family.silence = asked.source.reason;
    for (std::size_t i = 0; i < present_.size(); ++i) {
      if (!Belongs(asked.level, *present_[i])) continue;
      auto value = FormatValue(asked.type, Evaluate(asked, *present_[i]));
      if (!value) {
        family.silence = value.error();
        continue;
      }
      // A text has no place in Prometheus but as a label.
      if (asked.type == FieldType::kText && !IsNumber(*value)) {
        family.silence = "it is a text: give it the type label";
        continue;
      }
      Sample sample{i, *std::move(value), {}};
      if (asked.source.kind == Source::Kind::kXid) {
        std::uint64_t xid = 0;
        std::from_chars(sample.value.data(), sample.value.data() + sample.value.size(), xid);
        sample.attributes = {{"err_code", sample.value}, {"err_msg", std::string(XidMessage(xid))}};
      }
      family.samples.push_back(std::move(sample));
    }
  }

  void SampleClockEvents() {
    for (const auto* planned : present_) {
      const auto reasons = NumberOf(*planned, 0, {Quantity::kClockReasons});
      const auto& uuid = DeviceOf(*planned).uuid;
      const bool first = std::ranges::none_of(present_, [&](const auto* other) {
        return other < planned && other->gpu == planned->gpu;
      });
      if (reasons && first) {
        history_.clock_events.Add(TimeOf(*planned), uuid, static_cast<std::uint64_t>(*reasons));
      }
    }
  }

  void AddDerived(Derived derived, Family& family) {
    if (derived == Derived::kUnknown) family.silence = "DCGM has no such field";
    for (std::size_t i = 0; i < present_.size(); ++i) {
      if (present_[i]->entity.group != Group::kGpu) continue;
      switch (derived) {
        case Derived::kXidCount:
          AddXidCounts(i, family);
          break;
        case Derived::kClockEvents:
          AddClockEvents(i, family);
          break;
        case Derived::kHealth:
          AddHealth(i, family);
          break;
        case Derived::kPeerStatus:
          AddPeers(i, family);
          break;
        default:
          break;
      }
    }
  }

  void AddXidCounts(std::size_t i, Family& family) {
    const auto& planned = *present_[i];
    const auto window = fmt::format("{}", input_.windows.xids.count());
    const auto counts = history_.xids.Count(DeviceOf(planned).uuid, InstanceOf(planned), input_.now,
                                            input_.windows.xids);
    if (counts.empty()) family.samples.push_back({i, "0", {{"window_size_in_ms", window}}});
    for (const auto& [xid, count] : counts) {
      family.samples.push_back({i,
                                std::to_string(count),
                                {{"window_size_in_ms", window}, {"xid", std::to_string(xid)}}});
    }
  }

  void AddClockEvents(std::size_t i, Family& family) {
    const auto window = fmt::format("{}", input_.windows.clock_events.count());
    const auto counts = history_.clock_events.Count(DeviceOf(*present_[i]).uuid, input_.now,
                                                    input_.windows.clock_events);
    if (counts.empty()) family.samples.push_back({i, "0", {{"window_size_in_ms", window}}});
    for (const auto& [reason, count] : counts) {
      family.samples.push_back(
          {i, std::to_string(count), {{"clock_event", reason}, {"window_size_in_ms", window}}});
    }
  }

  std::optional<std::int64_t> RetiredAWeekAgo(const PlannedEntity& planned) {
    constexpr std::chrono::hours kWeek{7 * 24};
    const auto pages = NumberOf(
        planned, 0, {Quantity::kField, static_cast<std::uint16_t>(nvml::abi::field::kRetiredDbe)});
    const auto& uuid = DeviceOf(planned).uuid;
    if (pages) history_.retired_pages.Note(uuid, TimeOf(planned), *pages);
    return history_.retired_pages.At(uuid, TimeOf(planned) - kWeek);
  }

  void AddHealth(std::size_t i, Family& family) {
    const auto& planned = *present_[i];
    const auto& uuid = DeviceOf(planned).uuid;
    HealthReadings readings;
    readings.answer = [&](const Question& question) { return NumberOf(planned, 0, question); };
    readings.growth = [&](const Question& question) -> std::optional<CounterHistory::Growth> {
      const auto value = NumberOf(planned, 0, question);
      if (!value) return std::nullopt;
      return history_.counters.Advance(uuid, question, TimeOf(planned), *value);
    };
    readings.failed = [&](const Question& question) {
      const auto* silence = std::get_if<nvml::Silence>(&AnswerOf(planned, 0, question));
      return silence != nullptr && *silence == nvml::Silence::kFailed;
    };
    readings.xids = history_.xids.All(uuid);
    const auto architecture = DeviceOf(planned).architecture;
    readings.is_blackwell = architecture >= gpu::Architecture::kBlackwell &&
                            architecture != gpu::Architecture::kUnknown;
    readings.is_divided = std::ranges::any_of(
        input_.inventory.devices, [](const gpu::Device& device) { return device.IsMigEnabled(); });
    readings.retired_a_week_ago = RetiredAWeekAgo(planned);
    if (const auto* fabric = DeviceOf(planned).fabric.value()) {
      readings.fabric = {fabric->state, fabric->status};
    }
    for (const auto& status : StatusOfWatches(FindIncidents(readings))) {
      family.samples.push_back({i,
                                std::to_string(static_cast<unsigned>(status.health)),
                                {{"health_error_code", std::string(status.code)},
                                 {"health_watch", std::string(status.watch)}}});
    }
  }

  void AddPeers(std::size_t i, Family& family) {
    static constexpr std::string_view kStates[] = {"OK",
                                                   "ChipsetNotSupported",
                                                   "GPUNotSupported",
                                                   "TopologyNotSupported",
                                                   "DisabledByRegKey",
                                                   "NotSupported"};
    const auto& planned = *present_[i];
    for (const auto& peer : input_.inventory.devices) {
      if (peer.index == DeviceOf(planned).index || peer.fault) continue;
      const auto state =
          NumberOf(planned, 0, {Quantity::kPeerLinkStatus, static_cast<std::uint16_t>(peer.index)});
      if (!state) continue;
      const bool known = *state >= 0 && *state < std::ssize(kStates);
      const auto text = known ? kStates[static_cast<std::size_t>(*state)] : "Unknown";
      family.samples.push_back(
          {i,
           std::to_string(*state),
           {{"link_status", std::string(text)}, {"peer_gpu", std::to_string(peer.index)}}});
    }
  }

  const RoundInput& input_;
  History& history_;
  Round round_;
  std::vector<const PlannedEntity*> present_;  // beside round_.entities
};

}  // namespace

Round MakeRound(const RoundInput& input, History& history) {
  return Builder(input, history).Build();
}

}  // namespace pitcrew::node::metrics_exporter
