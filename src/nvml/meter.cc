#include "nvml/meter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "nvml/answers.h"
#include "nvml/loaded_meter.h"
#include "nvml/surroundings.h"

namespace pitcrew::nvml {
namespace {

// Quantities that are one call with one number as its result.
using PlainFunction = abi::Return (*Symbols::*)(abi::Device, unsigned*);
struct Plain {
  Quantity quantity;
  PlainFunction function;
};
constexpr Plain kPlain[] = {
    {Quantity::kPowerUsage, &Symbols::nvmlDeviceGetPowerUsage},
    {Quantity::kPowerLimit, &Symbols::nvmlDeviceGetPowerManagementLimit},
    {Quantity::kPowerLimitDefault, &Symbols::nvmlDeviceGetPowerManagementDefaultLimit},
    {Quantity::kPowerLimitEnforced, &Symbols::nvmlDeviceGetEnforcedPowerLimit},
    {Quantity::kFanSpeed, &Symbols::nvmlDeviceGetFanSpeed},
    {Quantity::kPerformanceState, &Symbols::nvmlDeviceGetPerformanceState},
    {Quantity::kPcieReplays, &Symbols::nvmlDeviceGetPcieReplayCounter},
    {Quantity::kPcieGeneration, &Symbols::nvmlDeviceGetCurrPcieLinkGeneration},
    {Quantity::kPcieWidth, &Symbols::nvmlDeviceGetCurrPcieLinkWidth},
    {Quantity::kPcieMaxGeneration, &Symbols::nvmlDeviceGetMaxPcieLinkGeneration},
    {Quantity::kPcieMaxWidth, &Symbols::nvmlDeviceGetMaxPcieLinkWidth},
    {Quantity::kComputeMode, &Symbols::nvmlDeviceGetComputeMode},
    {Quantity::kPersistenceMode, &Symbols::nvmlDeviceGetPersistenceMode},
    {Quantity::kInforomChecksum, &Symbols::nvmlDeviceGetInforomConfigurationChecksum},
    {Quantity::kVirtualizationMode, &Symbols::nvmlDeviceGetVirtualizationMode},
};

// The same, of one of several things.
using SelectedFunction = abi::Return (*Symbols::*)(abi::Device, unsigned, unsigned*);
struct Selected {
  Quantity quantity;
  SelectedFunction function;
};
constexpr Selected kSelected[] = {
    {Quantity::kClock, &Symbols::nvmlDeviceGetClockInfo},
    {Quantity::kMaxClock, &Symbols::nvmlDeviceGetMaxClockInfo},
    {Quantity::kApplicationClock, &Symbols::nvmlDeviceGetApplicationsClock},
    {Quantity::kTemperature, &Symbols::nvmlDeviceGetTemperature},
    {Quantity::kTemperatureThreshold, &Symbols::nvmlDeviceGetTemperatureThreshold},
    {Quantity::kNvLinkState, &Symbols::nvmlDeviceGetNvLinkState},
};

// Answers the questions about one part. What several of them need is read once.
class PartReader {
 public:
  PartReader(const Symbols& nvml, abi::Device gpu, abi::Device device)
      : nvml_(nvml), gpu_(gpu), device_(device) {}

  Answer Read(const Question& question) {
    for (const auto& plain : kPlain) {
      if (plain.quantity != question.quantity) continue;
      return AskNumber(nvml_.*plain.function, gpu_);
    }
    for (const auto& selected : kSelected) {
      if (selected.quantity != question.quantity) continue;
      return AskNumber(nvml_.*selected.function, gpu_, unsigned{question.number});
    }
    if (question.quantity >= Quantity::kMemoryTotal && question.quantity <= Quantity::kBar1Used) {
      return ReadMemory(question.quantity);
    }
    if (auto text = ReadText(question)) return *std::move(text);
    if (auto answer = AskSurroundings(nvml_, gpu_, question)) return *std::move(answer);
    return ReadOther(question);
  }

 private:
  Answer ReadMemory(Quantity quantity) {
    if (quantity >= Quantity::kBar1Total) {
      abi::Bar1Memory bar1{};
      const auto code = Try(nvml_.nvmlDeviceGetBAR1MemoryInfo, device_, &bar1);
      return NumberOr(code, quantity == Quantity::kBar1Total  ? bar1.total
                            : quantity == Quantity::kBar1Free ? bar1.free
                                                              : bar1.used);
    }
    if (!memory_) memory_ = LookAtMemory();
    const auto& [code, has_reserved, values] = *memory_;
    switch (quantity) {
      case Quantity::kMemoryTotal:
        return NumberOr(code, values.total);
      case Quantity::kMemoryFree:
        return NumberOr(code, values.free);
      case Quantity::kMemoryUsed:
        return NumberOr(code, values.used);
      default:
        if (code == abi::kSuccess && !has_reserved) return Silence::kNotSupported;
        return NumberOr(code, values.reserved);
    }
  }

  struct MemoryReading {
    abi::Return code = abi::kSuccess;
    bool has_reserved = false;
    abi::MemoryV2 values{};
  };
  [[nodiscard]] MemoryReading LookAtMemory() const {
    MemoryReading reading;
    reading.values.version = abi::VersionWord<abi::MemoryV2>(2);
    reading.code = Try(nvml_.nvmlDeviceGetMemoryInfo_v2, device_, &reading.values);
    reading.has_reserved = true;
    if (reading.code != abi::kFunctionNotFound) return reading;
    // Drivers before 510 count what is reserved as used, and do not tell of it.
    abi::Memory old{};
    reading.has_reserved = false;
    reading.code = Try(nvml_.nvmlDeviceGetMemoryInfo, device_, &old);
    reading.values = {0, old.total, 0, old.free, old.used};
    return reading;
  }

  std::optional<Answer> ReadText(const Question& question) {
    char buffer[128] = {};
    constexpr unsigned kSize = sizeof(buffer) - 1;
    abi::Return code = abi::kSuccess;
    switch (question.quantity) {
      case Quantity::kInforomVersion:
        code = Try(nvml_.nvmlDeviceGetInforomVersion, gpu_, unsigned{question.number},
                   static_cast<char*>(buffer), kSize);
        break;
      case Quantity::kInforomImage:
        code = Try(nvml_.nvmlDeviceGetInforomImageVersion, gpu_, static_cast<char*>(buffer), kSize);
        break;
      case Quantity::kVbios:
        code = Try(nvml_.nvmlDeviceGetVbiosVersion, gpu_, static_cast<char*>(buffer), kSize);
        break;
      default:
        return std::nullopt;
    }
    if (code != abi::kSuccess) return SilenceOf(code);
    return std::string(buffer);
  }

  Answer ReadOther(const Question& question) {
    switch (question.quantity) {
      case Quantity::kClockReasons:
        return ReadClockReasons();
      case Quantity::kTemperatureMargin: {
        abi::MarginTemperatureV1 margin{abi::kMarginTemperatureV1, 0};
        const auto code = Try(nvml_.nvmlDeviceGetMarginTemperature, gpu_, &margin);
        if (code != abi::kSuccess) return SilenceOf(code);
        return std::int64_t{margin.margin};
      }
      case Quantity::kPowerLimitMin:
      case Quantity::kPowerLimitMax: {
        unsigned least = 0;
        unsigned most = 0;
        const auto code =
            Try(nvml_.nvmlDeviceGetPowerManagementLimitConstraints, gpu_, &least, &most);
        return NumberOr(code, question.quantity == Quantity::kPowerLimitMin ? least : most);
      }
      case Quantity::kGpuUtilization:
      case Quantity::kMemoryUtilization:
      case Quantity::kEncoderUtilization:
      case Quantity::kDecoderUtilization:
        return ReadUtilization(question.quantity);
      case Quantity::kConfidentialComputing: {
        abi::ConfComputeSystemState state{};
        const auto code = Try(nvml_.nvmlSystemGetConfComputeState, &state);
        return NumberOr(code, state.feature);
      }
      case Quantity::kAutoBoost: {
        unsigned enabled = 0;
        unsigned by_default = 0;
        const auto code =
            Try(nvml_.nvmlDeviceGetAutoBoostedClocksEnabled, gpu_, &enabled, &by_default);
        return NumberOr(code, enabled);
      }
      case Quantity::kVgpuLicensed:
        return ReadLicense();
      case Quantity::kPeerLinkStatus:
        return ReadPeer(question.number);
      default:
        return ReadHealth(question);
    }
  }

  [[nodiscard]] Answer ReadClockReasons() const {
    unsigned long long reasons = 0;
    auto code = Try(nvml_.nvmlDeviceGetCurrentClocksEventReasons, gpu_, &reasons);
    // The name before driver 535.
    if (code == abi::kFunctionNotFound) {
      code = Try(nvml_.nvmlDeviceGetCurrentClocksThrottleReasons, gpu_, &reasons);
    }
    return NumberOr(code, reasons);
  }

  [[nodiscard]] Answer ReadUtilization(Quantity quantity) const {
    unsigned value = 0;
    unsigned period = 0;
    if (quantity == Quantity::kEncoderUtilization) {
      const auto code = Try(nvml_.nvmlDeviceGetEncoderUtilization, gpu_, &value, &period);
      return NumberOr(code, value);
    }
    if (quantity == Quantity::kDecoderUtilization) {
      const auto code = Try(nvml_.nvmlDeviceGetDecoderUtilization, gpu_, &value, &period);
      return NumberOr(code, value);
    }
    abi::Utilization both{};
    const auto code = Try(nvml_.nvmlDeviceGetUtilizationRates, gpu_, &both);
    return NumberOr(code, quantity == Quantity::kGpuUtilization ? both.gpu : both.memory);
  }

  [[nodiscard]] Answer ReadLicense() const {
    const auto features = std::make_unique<abi::GridLicensableFeatures>();
    const auto code = Try(nvml_.nvmlDeviceGetGridLicensableFeatures_v4, gpu_, features.get());
    if (code != abi::kSuccess) return SilenceOf(code);
    if (features->is_supported == 0) return std::int64_t{0};
    const auto count = std::min<std::size_t>(features->count, std::size(features->features));
    const auto listed = std::span(features->features).first(count);
    const bool licensed = std::ranges::any_of(listed, [](const auto& feature) {
      return feature.code == abi::kGridFeatureVgpu && feature.state != 0;
    });
    return std::int64_t{licensed ? 1 : 0};
  }

  [[nodiscard]] Answer ReadPeer(unsigned index) const {
    constexpr unsigned kOverNvLink = 2;
    abi::Device peer = nullptr;
    auto code = Try(nvml_.nvmlDeviceGetHandleByIndex_v2, index, &peer);
    unsigned status = 0;
    if (code == abi::kSuccess) {
      code = Try(nvml_.nvmlDeviceGetP2PStatus, gpu_, peer, kOverNvLink, &status);
    }
    return NumberOr(code, status);
  }

  Answer ReadHealth(const Question& question) {
    unsigned long long count = 0;
    switch (question.quantity) {
      case Quantity::kNvLinkErrors: {
        const auto code = Try(nvml_.nvmlDeviceGetNvLinkErrorCounter, gpu_, question.scope,
                              unsigned{question.number}, &count);
        return NumberOr(code, count);
      }
      case Quantity::kMemoryErrors: {
        const auto code = Try(nvml_.nvmlDeviceGetMemoryErrorCounter, gpu_, question.scope & 1u,
                              question.scope >> 1u, unsigned{question.number}, &count);
        return NumberOr(code, count);
      }
      case Quantity::kSramThresholdExceeded: {
        abi::EccSramErrorStatusV1 status{};
        status.version = abi::kEccSramErrorStatusV1;
        const auto code = Try(nvml_.nvmlDeviceGetSramEccErrorStatus, gpu_, &status);
        return NumberOr(code, status.threshold_exceeded);
      }
      case Quantity::kRetiredPages: {
        unsigned pages = 0;
        auto code = Try(nvml_.nvmlDeviceGetRetiredPages, gpu_, unsigned{question.number}, &pages,
                        static_cast<unsigned long long*>(nullptr));
        // The number is told also where the list does not fit into nothing.
        if (code == abi::kInsufficientSize) code = abi::kSuccess;
        return NumberOr(code, pages);
      }
      case Quantity::kRowRemapBanks: {
        abi::RowRemapperHistogram banks{};
        const auto code = Try(nvml_.nvmlDeviceGetRowRemapperHistogram, gpu_, &banks);
        const unsigned values[] = {banks.max, banks.high, banks.partial, banks.low, banks.none};
        if (question.number >= std::size(values)) return Silence::kNotSupported;
        return NumberOr(code, values[question.number]);
      }
      case Quantity::kUnrepairableMemory: {
        abi::UnrepairableMemoryStatus status{};
        const auto code = Try(nvml_.nvmlDeviceGetUnrepairableMemoryFlag_v1, gpu_, &status);
        return NumberOr(code, status.unrepairable);
      }
      case Quantity::kInforomValid: {
        const auto code = Try(nvml_.nvmlDeviceValidateInforom, gpu_);
        if (code == abi::kCorruptedInforom) return std::int64_t{0};
        return NumberOr(code, 1);
      }
      default:
        return Silence::kNotSupported;
    }
  }

  const Symbols& nvml_;
  const abi::Device gpu_;
  const abi::Device device_;  // the instance's MIG device, or the GPU
  std::optional<MemoryReading> memory_;
};

// What is read for all questions of a part together.
constexpr bool IsReadWithOthers(Quantity quantity) {
  return quantity == Quantity::kField || quantity == Quantity::kGpm ||
         quantity == Quantity::kPortCounter;
}

// All field values of a part by one call.
void ReadFields(const Symbols& nvml, abi::Device gpu, const Part& part, PartAnswers& answers) {
  std::vector<abi::FieldValue> fields;
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < part.questions.size(); ++i) {
    const auto& question = part.questions[i];
    if (question.quantity != Quantity::kField) continue;
    abi::FieldValue field{};
    field.field_id = question.number;
    field.scope_id = question.scope;
    field.nvml_return = abi::kUnknown;
    fields.push_back(field);
    positions.push_back(i);
  }
  if (fields.empty()) return;
  const auto code =
      Try(nvml.nvmlDeviceGetFieldValues, gpu, static_cast<int>(fields.size()), fields.data());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    answers.answers[positions[i]] =
        code == abi::kSuccess
            ? ValueOr(fields[i].nvml_return, fields[i].value_type, fields[i].value)
            : Answer(SilenceOf(code));
  }
}

void ReadGpm(GpmHistory& history, abi::Device gpu, const Part& part, PartAnswers& answers) {
  std::vector<unsigned> numbers;
  for (const auto& question : part.questions) {
    if (question.quantity == Quantity::kGpm) numbers.push_back(question.number);
  }
  if (numbers.empty()) return;
  const auto metrics = history.Advance(gpu, part, numbers);
  for (std::size_t i = 0; i < part.questions.size(); ++i) {
    if (part.questions[i].quantity != Quantity::kGpm) continue;
    const auto found = metrics.values.find(part.questions[i].number);
    answers.answers[i] = found != metrics.values.end()
                             ? found->second
                             : Answer(metrics.silence.value_or(Silence::kNotSupported));
  }
}

// Processes with a context; on a full GPU also how much of its multiprocessors each uses.
void ReadProcesses(const Symbols& nvml, abi::Device device, bool whole, PartAnswers& answers) {
  std::vector<abi::ProcessInfo> infos(64);
  unsigned count = 0;
  abi::Return code = abi::kInsufficientSize;
  // The list may grow between two calls.
  for (int attempt = 0; attempt < 4 && code == abi::kInsufficientSize; ++attempt) {
    if (count > infos.size()) infos.resize(count + 16);
    count = static_cast<unsigned>(infos.size());
    code = Try(nvml.nvmlDeviceGetComputeRunningProcesses_v3, device, &count, infos.data());
  }
  if (code != abi::kSuccess) return;
  for (unsigned i = 0; i < count; ++i) {
    // NVML says "not available" with all bits set.
    const auto memory = infos[i].used_gpu_memory == ~0ull ? 0 : infos[i].used_gpu_memory;
    answers.processes.push_back({infos[i].pid, memory, std::nullopt});
  }
  if (!whole) return;
  unsigned samples = 0;
  code = Try(nvml.nvmlDeviceGetProcessUtilization, device,
             static_cast<abi::ProcessUtilizationSample*>(nullptr), &samples, 0ull);
  if (code != abi::kInsufficientSize || samples == 0) return;
  std::vector<abi::ProcessUtilizationSample> uses(samples);
  code = Try(nvml.nvmlDeviceGetProcessUtilization, device, uses.data(), &samples, 0ull);
  if (code != abi::kSuccess) return;
  uses.resize(std::min<std::size_t>(samples, uses.size()));
  std::ranges::stable_sort(uses, {}, &abi::ProcessUtilizationSample::time_stamp);
  for (const auto& use : uses) {
    for (auto& process : answers.processes) {
      if (process.pid == use.pid) process.sm_percent = use.sm_util;
    }
  }
}

class LoadedMeter final : public Meter {
 public:
  explicit LoadedMeter(std::shared_ptr<LoadedLibrary> library) : library_(std::move(library)) {}

  std::vector<base::Result<GpuAnswers>> Read(const std::vector<GpuQuestions>& gpus) override {
    std::vector<base::Result<GpuAnswers>> answers;
    std::map<std::string, std::unique_ptr<GpmHistory>> kept;
    for (const auto& gpu : gpus) {
      auto& history = kept[gpu.uuid];
      if (const auto known = histories_.find(gpu.uuid); known != histories_.end()) {
        history = std::move(known->second);
        histories_.erase(known);
      }
      if (!history) history = std::make_unique<GpmHistory>(library_);
      answers.push_back(ReadParts(*library_, *history, gpu));
    }
    histories_ = std::move(kept);
    return answers;
  }

 private:
  const std::shared_ptr<LoadedLibrary> library_;
  std::map<std::string, std::unique_ptr<GpmHistory>> histories_;
};

}  // namespace

base::Result<GpuAnswers> ReadParts(LoadedLibrary& library, GpmHistory& history,
                                   const GpuQuestions& questions) {
  TRY(library.Probe(questions.uuid));
  TRY_ASSIGN(const abi::Device gpu, library.FindDevice(questions.uuid));
  history.Keep(questions.parts);
  GpuAnswers answers{base::SteadyClock::now(), {}};
  for (const auto& part : questions.parts) {
    PartAnswers of_part;
    abi::Device device = gpu;
    if (part.gpu_instance) {
      const auto mig = library.FindDevice(part.mig_uuid);
      of_part.answers.assign(part.questions.size(), Silence::kNotFound);
      // An instance that has just gone.
      if (!mig) {
        answers.parts.push_back(std::move(of_part));
        continue;
      }
      device = *mig;
    }
    of_part.answers.assign(part.questions.size(), Silence::kFailed);
    PartReader reader(library.symbols(), gpu, device);
    for (std::size_t i = 0; i < part.questions.size(); ++i) {
      const auto& question = part.questions[i];
      if (IsReadWithOthers(question.quantity)) continue;
      of_part.answers[i] = reader.Read(question);
    }
    ReadFields(library.symbols(), gpu, part, of_part);
    ReadPortCounters(library.symbols(), gpu, part, of_part);
    ReadGpm(history, gpu, part, of_part);
    if (part.processes) {
      ReadProcesses(library.symbols(), device, !part.gpu_instance, of_part);
    }
    answers.parts.push_back(std::move(of_part));
  }
  // A GPU that went away in the middle has half of its answers: none of them count.
  TRY(library.Probe(questions.uuid));
  return answers;
}

std::shared_ptr<Meter> LoadedLibrary::MakeMeter() {
  return std::make_shared<LoadedMeter>(shared_from_this());
}

}  // namespace pitcrew::nvml
