#include "simulation/sysfs/security_processor.h"

namespace pitcrew::simulation::sysfs {
namespace {

// Of channel 2.
constexpr std::size_t kRequestHead = 0x8f2c10;
constexpr std::size_t kRequestTail = 0x8f2c14;
constexpr std::size_t kAnswerHead = 0x8f2c90;
constexpr std::size_t kAnswerTail = 0x8f2c94;
constexpr std::size_t kPort = 0x8f2ad0;
constexpr std::size_t kPortData = 0x8f2ad4;

constexpr std::size_t kReceiveInfo = 0x8f1f84;
constexpr std::size_t kReceiveData = 0x8f1f88;
constexpr std::size_t kSendInfo = 0x8f1f04;
constexpr std::size_t kSendData = 0x8f1f08;
constexpr std::uint32_t kReady = 1U << 24U;
constexpr std::uint32_t kCredit = 1U << 26U;

constexpr unsigned kDevtools = 6;
constexpr unsigned kConfidential = 8;
constexpr unsigned kProtectedPcie = 45;

constexpr std::uint32_t kUnreadable = 0xbadf1234;

bool IsPermission(unsigned setting) {
  return setting == 5 || setting == 7 || setting == 9 || setting == 44;
}

}  // namespace

std::optional<SecurityProcessor::Kind> SecurityProcessor::KindOf(std::uint16_t device,
                                                                 std::uint32_t class_code) {
  const auto is_in = [device](unsigned first, unsigned last) {
    return device >= first && device <= last;
  };
  // The third generation; the second (0x1af1) has no such mode.
  if (class_code == 0x068000) return device == 0x22a3 ? std::optional(Kind::kSwitch) : std::nullopt;
  if (class_code >> 16U != 0x03) return std::nullopt;
  if (is_in(0x22f0, 0x237f)) return Kind::kHopper;
  if (is_in(0x2900, 0x29ff) || is_in(0x3180, 0x327f)) return Kind::kBlackwell100;
  if (is_in(0x2b80, 0x2c7f) || is_in(0x2d00, 0x2dff) || is_in(0x2f00, 0x2f7f)) {
    return Kind::kBlackwell202;
  }
  return std::nullopt;
}

void SecurityProcessor::TakeEffect() {
  in_force_ =
      settings_[kConfidential] | settings_[kDevtools] << 1U | settings_[kProtectedPcie] << 5U;
}

void SecurityProcessor::Reset() {
  if (!faults_.stays) TakeEffect();
  started_ = !faults_.never_starts;
}

std::string_view SecurityProcessor::mode() const {
  if ((in_force_ & 0x20U) != 0) return "ppcie";
  constexpr std::array<std::string_view, 4> kNames = {"off", "on", "invalid", "devtools"};
  return kNames.at(in_force_ & 3U);
}

std::uint32_t SecurityProcessor::Read(std::size_t offset) {
  const bool is_switch = kind_ == Kind::kSwitch;
  const std::size_t boot = is_switch ? 0x660bc : kind_ == Kind::kBlackwell202 ? 0xad00bc : 0x200bc;
  if (offset == 0) return is_switch ? 0x7000a1 : 0x180000a1;
  if (offset == boot) return started_ ? 0xff : kUnreadable;
  if (!started_) return kUnreadable;
  if (is_switch && offset == 0x28c50) return in_force_ >> 5U & 1U;
  if (kind_ == Kind::kHopper && offset == 0x1182cc) return in_force_ | 0xab00U;
  if (has_mailbox()) return offset == 0x590 ? in_force_ & 3U : ReadMailbox(offset);
  return ReadMemoryChannel(offset);
}

void SecurityProcessor::Write(std::size_t offset, std::uint32_t value) {
  if (has_mailbox()) {
    WriteMailbox(offset, value);
  } else {
    WriteMemoryChannel(offset, value);
  }
}

std::uint32_t SecurityProcessor::ReadMemoryChannel(std::size_t offset) {
  switch (offset) {
    case kRequestHead:
      return request_head_;
    case kRequestTail:
      return request_tail_;
    case kAnswerHead:
      return answer_head_;
    case kAnswerTail:
      return answer_tail_;
    case kPortData: {
      const auto place = (port_ & 0xffffU) / 4 % kMemoryWords;
      if ((port_ & 1U << 25U) != 0) port_ += 4;
      return memory_.at(place);
    }
    default:
      return 0;
  }
}

void SecurityProcessor::WriteMemoryChannel(std::size_t offset, std::uint32_t value) {
  switch (offset) {
    case kPort:
      port_ = value;
      return;
    case kPortData: {
      const auto place = (port_ & 0xffffU) / 4 % kMemoryWords;
      memory_.at(place) = value;
      if ((port_ & 1U << 24U) != 0) port_ += 4;
      return;
    }
    case kRequestTail:
      request_tail_ = value;
      return;
    case kAnswerHead:
      answer_head_ = value;
      return;
    case kAnswerTail:
      answer_tail_ = value;
      return;
    case kRequestHead:
      request_head_ = value;
      AnswerChannel();
      return;
    default:
      return;
  }
}

// A head that is written makes the processor look for a message between it and the tail.
void SecurityProcessor::AnswerChannel() {
  if (request_head_ == request_tail_ || faults_.silent) return;
  const std::size_t first = request_head_ / 4;
  const std::size_t last = request_tail_ / 4;
  if (last < first || last >= kMemoryWords) return;
  Answer(&memory_.at(first), last - first + 1);
  request_tail_ = request_head_;
  for (std::size_t i = 0; i < answer_words_; ++i) memory_.at(kArea / 4 + i) = answer_.at(i);
  answer_head_ = kArea;
  answer_tail_ = kArea + static_cast<std::uint32_t>(answer_words_ - 1) * 4;
}

std::uint32_t SecurityProcessor::ReadMailbox(std::size_t offset) {
  const bool answered = answer_read_ < answer_words_;
  if (offset == kReceiveInfo) return kReady | kCredit;
  if (offset == kSendInfo) {
    return answered ? kReady | static_cast<std::uint32_t>(answer_words_ * 4) : 0;
  }
  if (offset == kSendData && answered) return answer_.at(answer_read_++);
  return 0;
}

void SecurityProcessor::WriteMailbox(std::size_t offset, std::uint32_t value) {
  if (offset == kReceiveInfo) {
    expected_words_ = (value & 0xfffffU) / 4;
    received_words_ = 0;
    answer_words_ = 0;
  }
  if (offset != kReceiveData || received_words_ == received_.size()) return;
  received_.at(received_words_++) = value;
  if (received_words_ != expected_words_ || faults_.silent) return;
  Answer(received_.data(), received_words_);
}

void SecurityProcessor::Answer(const std::uint32_t* message, std::size_t words) {
  answer_words_ = 5;
  answer_read_ = 0;
  answer_[0] = 0xc0000000;
  answer_[1] = 0x1510de7e;
  answer_[2] = 0;
  answer_[3] = 0x13;
  answer_[4] = AnswerTo(message, words);
}

// The status; what is read follows it.
std::uint32_t SecurityProcessor::AnswerTo(const std::uint32_t* message, std::size_t words) {
  constexpr std::uint32_t kGood = 0;
  constexpr std::uint32_t kMalformed = 1;
  constexpr std::uint32_t kNoSuchCommand = 2;
  constexpr std::uint32_t kUnknown = 0x1e3;
  constexpr std::uint32_t kRefused = 0x55;
  if (words < 3 || message[0] != 0xc0000000 || message[1] != 0x1310de7e ||
      (message[2] >> 8U & 0xffU) != 2) {
    return kMalformed;
  }
  const unsigned number = message[2] >> 16U;
  const unsigned command = message[2] & 0xffU;
  const bool is_unknown =
      number >= settings_.size() || (number == kProtectedPcie && faults_.no_ppcie) ||
      (kind_ == Kind::kSwitch && (number == kDevtools || number == kConfidential));
  if (is_unknown) return kUnknown;
  if (command == 0x0c && words == 3) {
    answer_[5] = 0xdead0000U | settings_.at(number);
    if (IsPermission(number)) answer_[5] = faults_.locked ? 0 : 1;
    answer_words_ = 6;
    return kGood;
  }
  if (command != 0x0d || words != 4) return kNoSuchCommand;
  if (faults_.locked || faults_.refuses == static_cast<int>(number)) return kRefused;
  settings_.at(number) = static_cast<std::uint16_t>(message[3]);
  return kGood;
}

}  // namespace pitcrew::simulation::sysfs
