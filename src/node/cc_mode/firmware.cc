#include "node/cc_mode/firmware.h"

#include <fmt/format.h>

#include <optional>

namespace pitcrew::node::cc_mode {
namespace {

// MCTP: one packet, start and end of its message.
constexpr std::uint32_t kTransport = 1U << 31U | 1U << 30U;
// Vendor-defined message of vendor 0x10de.
constexpr std::uint32_t kVendorMessage = 0x7eU | 0x10deU << 8U;
constexpr std::uint32_t kTypeShift = 24;
constexpr std::uint32_t kSettings = 0x13;  // PRC
constexpr std::uint32_t kAnswer = 0x15;
constexpr std::uint32_t kReadKnob = 0x0c | 0x2U << 8U;
constexpr std::uint32_t kWriteKnob = 0x0d | 0x2U << 8U;
constexpr std::uint32_t kUnknownKnob = 0x1e3;
// Words of an answer before its payload: transport, message, (unused), type asked for, status.
constexpr std::size_t kHeader = 5;

std::unexpected<base::Error> NotUnderstood(std::string_view why) {
  return base::Fail(
      base::Internal("AnswerNotUnderstood",
                     fmt::format("the GPU's security processor answers in another form: {}", why)));
}

std::uint32_t Request(std::uint32_t command, Knob knob) {
  return command | static_cast<std::uint32_t>(knob) << 16U;
}

// The setting that says whether the host may change this one.
std::optional<Knob> PermissionOf(Knob knob) {
  switch (knob) {
    case Knob::kDevtools:
    case Knob::kConfidential:
    case Knob::kDecoupler:
    case Knob::kProtectedPcie:
      return static_cast<Knob>(static_cast<std::uint16_t>(knob) - 1);
    default:
      return std::nullopt;
  }
}

}  // namespace

base::Result<Firmware> Firmware::Open(host::PciRegisters& registers, Channel channel,
                                      std::chrono::milliseconds patience) {
  TRY_ASSIGN(auto opened, OpenChannel(registers, channel, patience));
  return Firmware(std::move(opened));
}

base::Result<Words> Firmware::Ask(const Words& payload) const {
  Words message = {kTransport, kVendorMessage | kSettings << kTypeShift};
  message.insert(message.end(), payload.begin(), payload.end());
  TRY_ASSIGN(auto answer, channel_->Exchange(message));
  if (answer.size() < kHeader) return NotUnderstood(fmt::format("{} words", answer.size()));
  if (const auto type = answer[1] >> kTypeShift; type != kAnswer) {
    return NotUnderstood(fmt::format("type {:#x}", type));
  }
  if (answer[3] != kSettings) return NotUnderstood(fmt::format("to a request {:#x}", answer[3]));
  if (answer[4] == kUnknownKnob) {
    return base::Fail(base::Error{base::Code::kUnsupported, "UnknownSetting",
                                  "the GPU's firmware is older than this setting"});
  }
  if (answer[4] != 0) {
    return base::Fail(
        base::Unavailable("FirmwareRefused", fmt::format("the GPU's security processor refuses "
                                                         "with status {:#x}",
                                                         answer[4])));
  }
  answer.erase(answer.begin(), answer.begin() + kHeader);
  return answer;
}

base::Result<std::uint16_t> Firmware::Read(Knob knob) const {
  TRY_ASSIGN(const auto payload, Ask({Request(kReadKnob, knob)}));
  if (payload.size() != 1) return NotUnderstood(fmt::format("{} values", payload.size()));
  // The upper half is not initialised by the firmware.
  return static_cast<std::uint16_t>(payload.front());
}

base::Status Firmware::Set(Knob knob, std::uint16_t value) const {
  const auto number = static_cast<unsigned>(knob);
  const auto before = Read(knob);
  if (!before && before.error().reason == "UnknownSetting" && value == 0) return {};
  if (!before) {
    return base::Fail(before.error().Within(fmt::format("read setting {} of the GPU", number)));
  }
  if (*before == value) return {};
  const auto written = Ask({Request(kWriteKnob, knob), value});
  if (written) return {};
  const auto permission = PermissionOf(knob);
  if (permission && Read(*permission).value_or(1) == 0) {
    return base::Fail(base::Error{
        base::Code::kDenied, "SettingLocked",
        fmt::format("the GPU's firmware takes no change of setting {} from the host (its setting "
                    "{} is 0): permit it by the board management controller, or change it there",
                    number, static_cast<unsigned>(*permission))});
  }
  return base::Fail(
      written.error().Within(fmt::format("set setting {} of the GPU to {}", number, value)));
}

}  // namespace pitcrew::node::cc_mode
