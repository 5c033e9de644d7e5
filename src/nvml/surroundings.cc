#include "nvml/surroundings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "nvml/answers.h"

namespace pitcrew::nvml {
namespace {

// As many words as upstream has fields for: 256 processors, 256 NUMA nodes.
using Words = std::array<unsigned long, 4>;

Answer WordOf(abi::Return code, const Words& words, unsigned number) {
  if (number >= words.size()) return Silence::kNotSupported;
  return NumberOr(code, words[number]);
}

Answer ReadFabricHealth(const Symbols& nvml, abi::Device gpu, Quantity quantity) {
  abi::GpuFabricInfoV3 info{};
  info.v2.version = abi::kGpuFabricInfoV3;
  auto code = Try(nvml.nvmlDeviceGetGpuFabricInfoV, gpu, static_cast<void*>(&info));
  bool has_summary = true;
  // Libraries before the third version have no summary.
  if (code == abi::kArgumentVersionMismatch) {
    has_summary = false;
    info = {};
    info.v2.version = abi::kGpuFabricInfoV2;
    code = Try(nvml.nvmlDeviceGetGpuFabricInfoV, gpu, static_cast<void*>(&info));
  }
  if (quantity == Quantity::kFabricHealth) return NumberOr(code, info.v2.health_mask);
  if (code == abi::kSuccess && !has_summary) return Silence::kNotSupported;
  return NumberOr(code, info.health_summary);
}

// 0xff, and for the serial number also nothing, is what the platform does not know.
Answer ReadPlatform(const Symbols& nvml, abi::Device gpu, Quantity quantity) {
  abi::PlatformInfoV2 info{};
  info.version = abi::kPlatformInfoV2;
  const auto code = Try(nvml.nvmlDeviceGetPlatformInfo, gpu, &info);
  if (code != abi::kSuccess) return SilenceOf(code);
  const auto place = [](unsigned char number) -> Answer {
    if (number == abi::kPlatformUnknown) return Silence::kNotFound;
    return std::int64_t{number};
  };
  switch (quantity) {
    case Quantity::kPlatformGuid: {
      std::uint64_t guid = 0;
      std::memcpy(&guid, info.ib_guid, sizeof(guid));
      return fmt::format("0x{:016x}", guid);
    }
    case Quantity::kPlatformSerial: {
      const auto& serial = info.chassis_serial_number;
      const bool unknown = std::ranges::all_of(
          serial, [](unsigned char byte) { return byte == abi::kPlatformUnknown; });
      if (serial[0] == 0 || unknown) return Silence::kNotFound;
      return std::string(std::begin(serial), std::ranges::find(serial, 0));
    }
    case Quantity::kPlatformSlot:
      return place(info.slot_number);
    case Quantity::kPlatformTray:
      return place(info.tray_index);
    case Quantity::kPlatformHost:
      return std::int64_t{info.host_id};
    case Quantity::kPlatformPeerType:
      return std::int64_t{info.peer_type};
    default:
      return std::int64_t{info.module_id};
  }
}

// Ports are counted from 1, but for the counters of InfiniBand's attribute, which upstream asks by
// the link's own number.
unsigned LocalPort(const Question& question) {
  return question.number == abi::port_counter::kPortXmitWait ? question.scope : question.scope + 1;
}

}  // namespace

std::optional<Answer> AskSurroundings(const Symbols& nvml, abi::Device gpu,
                                      const Question& question) {
  Words words{};
  constexpr auto kWords = static_cast<unsigned>(words.size());
  switch (question.quantity) {
    case Quantity::kCpuAffinity: {
      const auto code = Try(nvml.nvmlDeviceGetCpuAffinity, gpu, kWords, words.data());
      return WordOf(code, words, question.number);
    }
    case Quantity::kMemoryAffinity: {
      constexpr unsigned kOfNumaNode = 0;
      const auto code =
          Try(nvml.nvmlDeviceGetMemoryAffinity, gpu, kWords, words.data(), kOfNumaNode);
      return WordOf(code, words, question.number);
    }
    case Quantity::kFabricHealth:
    case Quantity::kFabricHealthSummary:
      return ReadFabricHealth(nvml, gpu, question.quantity);
    case Quantity::kPlatformGuid:
    case Quantity::kPlatformSerial:
    case Quantity::kPlatformSlot:
    case Quantity::kPlatformTray:
    case Quantity::kPlatformHost:
    case Quantity::kPlatformPeerType:
    case Quantity::kPlatformModule:
      return ReadPlatform(nvml, gpu, question.quantity);
    default:
      return std::nullopt;
  }
}

void ReadPortCounters(const Symbols& nvml, abi::Device gpu, const Part& part,
                      PartAnswers& answers) {
  std::vector<abi::PortCounter> counters;
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < part.questions.size(); ++i) {
    const auto& question = part.questions[i];
    if (question.quantity != Quantity::kPortCounter) continue;
    counters.push_back({question.number, LocalPort(question), abi::kUnknown, 0, {}});
    positions.push_back(i);
  }
  if (counters.empty()) return;
  abi::PortCounterList list{static_cast<unsigned>(counters.size()), counters.data()};
  const auto code = Try(nvml.nvmlDeviceReadPRMCounters_v1, gpu, &list);
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const auto& counter = counters[i];
    answers.answers[positions[i]] = code == abi::kSuccess
                                        ? ValueOr(counter.status, counter.value_type, counter.value)
                                        : Answer(SilenceOf(code));
  }
}

}  // namespace pitcrew::nvml
