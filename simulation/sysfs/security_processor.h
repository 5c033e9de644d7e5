// The security processor of a GPU or NVSwitch with modes of confidential computing, as its
// registers show it (virtualisation-and-olm.md section 12.2): settings that messages change, and
// that a reset puts in force. A value without pointers: it can lie in memory that processes share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pitcrew::simulation::sysfs {

class SecurityProcessor {
 public:
  enum class Kind { kHopper, kBlackwell100, kBlackwell202, kSwitch };
  // Of PCI ids; nothing where a device has no such modes.
  static std::optional<Kind> KindOf(std::uint16_t device, std::uint32_t class_code);

  // What goes wrong; all of it can be changed at any time.
  struct Faults {
    int refuses = -1;           // a write of that setting
    bool locked = false;        // the host may change nothing
    bool silent = false;        // no message is answered
    bool stays = false;         // a reset puts nothing in force
    bool never_starts = false;  // after a reset
    bool no_ppcie = false;      // firmware from before protected PCIe
  };

  explicit SecurityProcessor(Kind kind) : kind_(kind) {}

  // 32 bits at a byte offset of memory region 0. Reading a port's data goes on by one word.
  std::uint32_t Read(std::size_t offset);
  void Write(std::size_t offset, std::uint32_t value);
  void Reset();

  [[nodiscard]] Kind kind() const { return kind_; }
  Faults& faults() { return faults_; }
  [[nodiscard]] unsigned setting(unsigned number) const { return settings_.at(number); }
  void Set(unsigned number, unsigned value) {
    settings_.at(number) = static_cast<std::uint16_t>(value);
  }
  // Puts the settings in force, as a reset does.
  void TakeEffect();
  // "off", "on", "devtools", "invalid", or "ppcie".
  [[nodiscard]] std::string_view mode() const;

 private:
  // Channel 2 of the falcon's memory: where its area begins, and the words of it all.
  static constexpr std::uint32_t kArea = 2048;
  static constexpr std::size_t kMemoryWords = 2048;

  [[nodiscard]] bool has_mailbox() const {
    return kind_ == Kind::kBlackwell100 || kind_ == Kind::kBlackwell202;
  }
  std::uint32_t ReadMemoryChannel(std::size_t offset);
  void WriteMemoryChannel(std::size_t offset, std::uint32_t value);
  std::uint32_t ReadMailbox(std::size_t offset);
  void WriteMailbox(std::size_t offset, std::uint32_t value);
  void AnswerChannel();
  void Answer(const std::uint32_t* message, std::size_t words);
  std::uint32_t AnswerTo(const std::uint32_t* message, std::size_t words);

  Kind kind_;
  Faults faults_;
  std::array<std::uint16_t, 64> settings_{};
  std::uint32_t in_force_ = 0;
  bool started_ = true;

  std::array<std::uint32_t, kMemoryWords> memory_{};
  std::uint32_t port_ = 0;
  std::uint32_t request_head_ = kArea;
  std::uint32_t request_tail_ = kArea;
  std::uint32_t answer_head_ = kArea;
  std::uint32_t answer_tail_ = kArea;

  std::array<std::uint32_t, 16> received_{};
  std::size_t received_words_ = 0;
  std::size_t expected_words_ = 0;

  std::array<std::uint32_t, 16> answer_{};
  std::size_t answer_words_ = 0;
  std::size_t answer_read_ = 0;
};

}  // namespace pitcrew::simulation::sysfs
