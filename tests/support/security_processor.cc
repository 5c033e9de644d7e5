#include "tests/support/security_processor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <new>
#include <utility>

namespace pitcrew::test_support {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRegionBytes = 16UL << 20U;
constexpr std::size_t kSettings = 64;
constexpr std::size_t kMemoryWords = 2048;

// Of channel 2.
constexpr std::size_t kRequestHead = 0x8f2c10;
constexpr std::size_t kRequestTail = 0x8f2c14;
constexpr std::size_t kAnswerHead = 0x8f2c90;
constexpr std::size_t kAnswerTail = 0x8f2c94;
constexpr std::size_t kPort = 0x8f2ad0;
constexpr std::size_t kPortData = 0x8f2ad4;
constexpr std::uint32_t kArea = 2048;

constexpr std::size_t kReceiveInfo = 0x8f1f84;
constexpr std::size_t kReceiveData = 0x8f1f88;
constexpr std::size_t kSendInfo = 0x8f1f04;
constexpr std::size_t kSendData = 0x8f1f08;
constexpr std::uint32_t kReady = 1U << 24U;
constexpr std::uint32_t kCredit = 1U << 26U;

constexpr unsigned kDevtools = 6;
constexpr unsigned kConfidential = 8;
constexpr unsigned kProtectedPcie = 45;

void WriteFile(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

void Put(std::string& bytes, std::size_t offset, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes[offset + i] = static_cast<char>(value >> (8 * i));
}

}  // namespace

struct SecurityProcessor::State {
  Faults faults;
  std::array<std::uint16_t, kSettings> settings{};
  std::uint32_t in_force = 0;
  bool started = true;
  int resets = 0;
  int accesses = 0;

  std::array<std::uint32_t, kMemoryWords> memory{};
  std::uint32_t port = 0;
  std::uint32_t request_head = kArea;
  std::uint32_t request_tail = kArea;
  std::uint32_t answer_head = kArea;
  std::uint32_t answer_tail = kArea;

  std::array<std::uint32_t, 16> received{};
  std::size_t received_words = 0;
  std::size_t expected_words = 0;

  std::array<std::uint32_t, 16> answer{};
  std::size_t answer_words = 0;
  std::size_t answer_read = 0;
};

SecurityProcessor::SecurityProcessor(const fs::path& root, std::string address, Kind kind)
    : root_(root),
      address_(std::move(address)),
      kind_(kind),
      folder_(root / "sys/bus/pci/devices" / address_) {
  void* shared =
      ::mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  state_ = new (shared) State();
  MakeFiles();
  trap_ = std::make_unique<RegisterTrap>(folder_ / "resource0", kRegionBytes, *this);
}

SecurityProcessor::~SecurityProcessor() {
  trap_.reset();
  ::munmap(state_, sizeof(State));
}

void SecurityProcessor::MakeFiles() const {
  const std::string device = kind_ == Kind::kHopper         ? "0x2330"
                             : kind_ == Kind::kBlackwell100 ? "0x2901"
                             : kind_ == Kind::kBlackwell202 ? "0x2bb5"
                                                            : "0x22a3";
  WriteFile(folder_ / "vendor", "0x10de\n");
  WriteFile(folder_ / "device", device + "\n");
  WriteFile(folder_ / "class", kind_ == Kind::kSwitch ? "0x068000\n" : "0x030200\n");
  WriteFile(folder_ / "subsystem_vendor", "0x10de\n");
  WriteFile(folder_ / "subsystem_device", "0x16c1\n");
  WriteFile(folder_ / "numa_node", "-1\n");
  WriteFile(folder_ / "reset", "");
  WriteFile(folder_ / "power/control", "auto\n");
  std::string config(4096, '\0');
  // A capability of somebody else's, then NVIDIA's with its firewall's bit clear.
  Put(config, 0x100, 0x200U << 20U | 0x10001U);
  Put(config, 0x200, 0x10023U);
  Put(config, 0x204, 0x10deU);
  WriteFile(folder_ / "config", config);
  BindTo("vfio-pci");
}

void SecurityProcessor::BindTo(const std::string& driver) const {
  fs::remove(folder_ / "driver");
  if (driver.empty()) return;
  fs::create_directory_symlink("../../drivers/" + driver, folder_ / "driver");
}

SecurityProcessor::Faults& SecurityProcessor::faults() { return state_->faults; }
unsigned SecurityProcessor::setting(unsigned number) const { return state_->settings.at(number); }
void SecurityProcessor::Set(unsigned number, unsigned value) {
  state_->settings.at(number) = static_cast<std::uint16_t>(value);
}
int SecurityProcessor::resets() const { return state_->resets; }
int SecurityProcessor::accesses() const { return state_->accesses; }

void SecurityProcessor::TakeEffect() {
  state_->in_force = state_->settings[kConfidential] | state_->settings[kDevtools] << 1U |
                     state_->settings[kProtectedPcie] << 5U;
}

std::string SecurityProcessor::mode() const {
  if ((state_->in_force & 0x20U) != 0) return "ppcie";
  static const std::array<std::string, 4> kNames = {"off", "on", "invalid", "devtools"};
  return kNames.at(state_->in_force & 3U);
}

// sysfs has told the device to start anew: seen at its next access.
void SecurityProcessor::LookForReset() {
  std::error_code error;
  if (fs::file_size(folder_ / "reset", error) == 0 || error) return;
  std::ofstream(folder_ / "reset", std::ios::trunc);
  ++state_->resets;
  if (!state_->faults.stays) TakeEffect();
  state_->started = !state_->faults.never_starts;
}

void SecurityProcessor::Count() {
  ++state_->accesses;
  if (state_->faults.dies_after_accesses != 0 &&
      state_->accesses >= state_->faults.dies_after_accesses) {
    ::raise(SIGKILL);
  }
}

std::uint32_t SecurityProcessor::Read(std::size_t offset) {
  LookForReset();
  if (offset != 4) Count();  // which only tells the byte order
  const bool is_switch = kind_ == Kind::kSwitch;
  const std::size_t boot = is_switch ? 0x660bc : kind_ == Kind::kBlackwell202 ? 0xad00bc : 0x200bc;
  if (offset == 0) return is_switch ? 0x7000a1 : 0x180000a1;
  if (offset == boot) return state_->started ? 0xff : 0xbadf1234;
  if (!state_->started) return 0xbadf1234;
  if (is_switch && offset == 0x28c50) return state_->in_force >> 5U & 1U;
  if (kind_ == Kind::kHopper && offset == 0x1182cc) return state_->in_force | 0xab00U;
  if (kind_ != Kind::kHopper && !is_switch && offset == 0x590) return state_->in_force & 3U;
  if (kind_ == Kind::kBlackwell100 || kind_ == Kind::kBlackwell202) return ReadMailbox(offset);
  return ReadMemoryChannel(offset);
}

void SecurityProcessor::Write(std::size_t offset, std::uint32_t value) {
  LookForReset();
  Count();
  if (kind_ == Kind::kBlackwell100 || kind_ == Kind::kBlackwell202) {
    WriteMailbox(offset, value);
  } else {
    WriteMemoryChannel(offset, value);
  }
}

std::uint32_t SecurityProcessor::ReadMemoryChannel(std::size_t offset) {
  switch (offset) {
    case kRequestHead:
      return state_->request_head;
    case kRequestTail:
      return state_->request_tail;
    case kAnswerHead:
      return state_->answer_head;
    case kAnswerTail:
      return state_->answer_tail;
    case kPortData: {
      const auto place = (state_->port & 0xffffU) / 4;
      if ((state_->port & 1U << 25U) != 0) state_->port += 4;
      return state_->memory.at(place);
    }
    default:
      return 0;
  }
}

void SecurityProcessor::WriteMemoryChannel(std::size_t offset, std::uint32_t value) {
  switch (offset) {
    case kPort:
      state_->port = value;
      return;
    case kPortData: {
      const auto place = (state_->port & 0xffffU) / 4;
      state_->memory.at(place) = value;
      if ((state_->port & 1U << 24U) != 0) state_->port += 4;
      return;
    }
    case kRequestTail:
      state_->request_tail = value;
      return;
    case kAnswerHead:
      state_->answer_head = value;
      return;
    case kAnswerTail:
      state_->answer_tail = value;
      return;
    case kRequestHead:
      break;
    default:
      return;
  }
  state_->request_head = value;
  if (state_->request_head == state_->request_tail || state_->faults.silent) return;
  Answer(&state_->memory.at(value / 4), (state_->request_tail - value) / 4 + 1);
  state_->request_tail = state_->request_head;
  for (std::size_t i = 0; i < state_->answer_words; ++i) {
    state_->memory.at(kArea / 4 + i) = state_->answer.at(i);
  }
  state_->answer_head = kArea;
  state_->answer_tail = kArea + static_cast<std::uint32_t>(state_->answer_words - 1) * 4;
}

std::uint32_t SecurityProcessor::ReadMailbox(std::size_t offset) {
  const bool answered = state_->answer_read < state_->answer_words;
  if (offset == kReceiveInfo) return kReady | kCredit;
  if (offset == kSendInfo) {
    return answered ? kReady | static_cast<std::uint32_t>(state_->answer_words * 4) : 0;
  }
  if (offset == kSendData && answered) return state_->answer.at(state_->answer_read++);
  return 0;
}

void SecurityProcessor::WriteMailbox(std::size_t offset, std::uint32_t value) {
  if (offset == kReceiveInfo) {
    state_->expected_words = (value & 0xfffffU) / 4;
    state_->received_words = 0;
    state_->answer_words = 0;
  }
  if (offset != kReceiveData) return;
  state_->received.at(state_->received_words++) = value;
  if (state_->received_words != state_->expected_words || state_->faults.silent) return;
  Answer(state_->received.data(), state_->received_words);
}

void SecurityProcessor::Answer(const std::uint32_t* message, std::size_t words) {
  constexpr std::uint32_t kGood = 0;
  constexpr std::uint32_t kUnknown = 0x1e3;
  constexpr std::uint32_t kNo = 0x55;
  const auto& faults = state_->faults;
  std::uint32_t status = kGood;
  std::size_t length = 5;
  const unsigned number = words > 2 ? message[2] >> 16U : 0;
  const unsigned command = words > 2 ? message[2] & 0xffU : 0;
  const bool is_permission = number == 5 || number == 7 || number == 9 || number == 44;
  const bool unknown = number >= kSettings || (number == kProtectedPcie && faults.no_ppcie) ||
                       (kind_ == Kind::kSwitch && (number == kDevtools || number == kConfidential));
  if (words < 3 || message[0] != 0xc0000000 || message[1] != 0x1310de7e ||
      (message[2] >> 8U & 0xffU) != 2) {
    status = 1;
  } else if (unknown) {
    status = kUnknown;
  } else if (command == 0x0c && words == 3) {
    state_->answer[5] = 0xdead0000U | state_->settings.at(number);
    if (is_permission) state_->answer[5] = faults.locked ? 0 : 1;
    length = 6;
  } else if (command == 0x0d && words == 4) {
    if (faults.locked || faults.refuses == static_cast<int>(number)) {
      status = kNo;
    } else {
      state_->settings.at(number) = static_cast<std::uint16_t>(message[3]);
    }
  } else {
    status = 2;
  }
  state_->answer[0] = 0xc0000000;
  state_->answer[1] = 0x1510de7e;
  state_->answer[2] = 0;
  state_->answer[3] = 0x13;
  state_->answer[4] = status;
  state_->answer_words = length;
  state_->answer_read = 0;
}

}  // namespace pitcrew::test_support
