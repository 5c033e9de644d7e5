#include "node/cc_mode/channel.h"

#include <fmt/format.h>

#include <algorithm>

#include "node/cc_mode/register_wait.h"

namespace pitcrew::node::cc_mode {
namespace {

using base::Deadline;
using std::chrono::milliseconds;

// An exchange is part of a change, which is not to be interrupted.
constexpr int kNoStop = -1;

std::unexpected<base::Error> Silent(std::string_view what) {
  return base::Fail(base::Error{
      base::Code::kTimeout, "FirmwareSilent",
      fmt::format("the GPU's security processor {}; a cold start of the node may help", what)});
}

std::unexpected<base::Error> Refused(std::string_view what, std::uint32_t value) {
  return base::Fail(base::Unavailable(
      "FirmwareRefused", fmt::format("the GPU's security processor {} ({:#x})", what, value)));
}

// Hopper and NVSwitches: channel 2 of the falcon at 0x8f0000, whose memory has 1024 bytes for it.
class MemoryChannel final : public MessageChannel {
 public:
  MemoryChannel(host::PciRegisters& registers, milliseconds patience)
      : registers_(registers), patience_(patience) {}

  // A request or an answer that a process left which died: the processor gets time to end it.
  base::Status Settle() {
    TRY_ASSIGN(const bool requests, IsEmpty(kRequestHead));
    TRY_ASSIGN(const bool answers, IsEmpty(kAnswerHead));
    if (requests && answers) return {};
    TRY_ASSIGN(const bool answered, AwaitAnswer());
    static_cast<void>(answered);
    TRY(registers_.Write(kRequestTail, kBase));
    TRY(registers_.Write(kRequestHead, kBase));
    TRY(registers_.Write(kAnswerTail, kBase));
    return registers_.Write(kAnswerHead, kBase);
  }

  base::Result<Words> Exchange(const Words& message) override {
    TRY(Send(message));
    return Receive();
  }

 private:
  static constexpr std::size_t kNumber = 2;
  static constexpr std::uint32_t kBase = kNumber * 1024;
  static constexpr std::size_t kRequestHead = 0x8f2c00 + kNumber * 8;
  static constexpr std::size_t kRequestTail = kRequestHead + 4;
  static constexpr std::size_t kAnswerHead = 0x8f2c80 + kNumber * 8;
  static constexpr std::size_t kAnswerTail = kAnswerHead + 4;
  static constexpr std::size_t kPort = 0x8f2ac0 + kNumber * 8;
  static constexpr std::size_t kData = kPort + 4;
  // Each access of the port's data goes on by one word, of writes and of reads.
  static constexpr std::uint32_t kAutoIncrement = 1U << 24U | 1U << 25U;
  static constexpr std::uint32_t kAreaBytes = 1024;

  [[nodiscard]] base::Result<bool> IsEmpty(std::size_t head) const {
    TRY_ASSIGN(const auto first, registers_.Read(head));
    TRY_ASSIGN(const auto last, registers_.Read(head + 4));
    return first == last;
  }

  base::Result<bool> AwaitAnswer() {
    TRY_ASSIGN(const auto head, registers_.Read(kAnswerHead));
    return AwaitRegister(
        registers_, kAnswerTail, [&](std::uint32_t tail) { return tail != head; },
        Deadline::After(patience_), kNoStop);
  }

  base::Status Send(const Words& message) {
    TRY_ASSIGN(const auto tail, registers_.Read(kRequestTail));
    TRY_ASSIGN(const bool free,
               AwaitRegister(
                   registers_, kRequestHead, [&](std::uint32_t head) { return head == tail; },
                   Deadline::After(patience_), kNoStop));
    if (!free) return Silent("takes no message");
    TRY(registers_.Write(kPort, kBase | kAutoIncrement));
    for (const auto word : message) TRY(registers_.Write(kData, word));
    TRY(registers_.Write(kRequestTail, kBase + static_cast<std::uint32_t>(message.size() - 1) * 4));
    // The head makes the processor look.
    return registers_.Write(kRequestHead, kBase);
  }

  base::Result<Words> Receive() {
    TRY_ASSIGN(const bool answered, AwaitAnswer());
    if (!answered) return Silent("does not answer");
    TRY_ASSIGN(const auto head, registers_.Read(kAnswerHead));
    TRY_ASSIGN(const auto tail, registers_.Read(kAnswerTail));
    const std::uint32_t bytes = tail - head + 4;
    Words answer;
    if (bytes <= kAreaBytes) {
      TRY(registers_.Write(kPort, kBase | kAutoIncrement));
      for (std::uint32_t read = 0; read < bytes; read += 4) {
        TRY_ASSIGN(const auto word, registers_.Read(kData));
        answer.push_back(word);
      }
    }
    TRY(registers_.Write(kAnswerTail, head));
    if (bytes > kAreaBytes) return Refused("answers with more than its memory holds", bytes);
    return answer;
  }

  host::PciRegisters& registers_;
  const milliseconds patience_;
};

// Blackwell: port 0 of the mailbox at 0x8f1e00.
class MailboxChannel final : public MessageChannel {
 public:
  MailboxChannel(host::PciRegisters& registers, milliseconds patience)
      : registers_(registers), patience_(patience) {}

  base::Result<Words> Exchange(const Words& message) override {
    TRY(Send(message));
    return Receive();
  }

 private:
  static constexpr std::size_t kBase = 0x8f1e00;
  // What the processor receives, and what it sends.
  static constexpr std::size_t kReceiveInfo = kBase + 0x184;
  static constexpr std::size_t kReceiveData = kReceiveInfo + 4;
  static constexpr std::size_t kSendInfo = kBase + 0x104;
  static constexpr std::size_t kSendData = kSendInfo + 4;
  static constexpr std::uint32_t kReady = 1U << 24U;
  static constexpr std::uint32_t kError = 1U << 25U;
  static constexpr std::uint32_t kCredit = 1U << 26U;
  static constexpr std::uint32_t kMetadata = 1U << 20U;
  static constexpr std::uint32_t kSize = 0xfffff;
  static constexpr std::uint32_t kPacketBytes = 4160;
  static constexpr std::size_t kWordsOfCredit = 64 / 4;

  [[nodiscard]] base::Status RequireNoError(std::size_t info, std::string_view what) const {
    TRY_ASSIGN(const auto value, registers_.Read(info));
    if ((value & kError) != 0) return Refused(what, value);
    return {};
  }

  base::Result<bool> Await(std::size_t info, std::uint32_t bit, base::Deadline deadline) {
    return AwaitRegister(
        registers_, info, [&](std::uint32_t value) { return (value & bit) != 0; }, deadline,
        kNoStop);
  }

  base::Status Send(const Words& message) {
    TRY(RequireNoError(kReceiveInfo, "reports an error before a message"));
    TRY_ASSIGN(const bool ready, Await(kReceiveInfo, kReady, Deadline::After(patience_)));
    if (!ready) return Silent("takes no message");
    TRY(registers_.Write(kReceiveInfo, static_cast<std::uint32_t>(message.size() * 4) | kMetadata));
    for (std::size_t sent = 0; sent < message.size(); ++sent) {
      if (sent % kWordsOfCredit == 0) {
        TRY_ASSIGN(const bool credit, Await(kReceiveInfo, kCredit, Deadline::After(patience_)));
        if (!credit) return Silent("takes no more of a message");
      }
      TRY(registers_.Write(kReceiveData, message[sent]));
    }
    return RequireNoError(kReceiveInfo, "does not take a message");
  }

  base::Result<Words> Receive() {
    TRY_ASSIGN(const bool ready, Await(kSendInfo, kReady, Deadline::After(patience_)));
    if (!ready) {
      TRY(RequireNoError(kSendInfo, "cannot answer"));
      return Silent("does not answer");
    }
    TRY_ASSIGN(const auto info, registers_.Read(kSendInfo));
    const std::uint32_t bytes = info & kSize;
    if (bytes > kPacketBytes) return Refused("answers with more than a packet", info);
    Words answer;
    for (std::uint32_t read = 0; read < bytes; read += 4) {
      TRY_ASSIGN(const auto word, registers_.Read(kSendData));
      answer.push_back(word);
    }
    TRY(RequireNoError(kSendInfo, "reports an error in its answer"));
    return answer;
  }

  host::PciRegisters& registers_;
  const milliseconds patience_;
};

}  // namespace

base::Result<std::unique_ptr<MessageChannel>> OpenChannel(host::PciRegisters& registers,
                                                          Channel channel, milliseconds patience) {
  if (channel == Channel::kMailbox) return std::make_unique<MailboxChannel>(registers, patience);
  auto memory = std::make_unique<MemoryChannel>(registers, patience);
  TRY(memory->Settle());
  return memory;
}

}  // namespace pitcrew::node::cc_mode
