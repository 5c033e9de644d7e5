#include "tests/support/security_processor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <new>
#include <utility>

namespace pitcrew::test_support {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRegionBytes = 16UL << 20U;

void WriteFile(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

void Put(std::string& bytes, std::size_t offset, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes[offset + i] = static_cast<char>(value >> (8 * i));
}

}  // namespace

struct SecurityProcessor::State {
  explicit State(Kind kind) : model(kind) {}

  Model model;
  Faults faults;
  int resets = 0;
  int accesses = 0;
};

SecurityProcessor::SecurityProcessor(const fs::path& root, std::string address, Kind kind)
    : root_(root),
      address_(std::move(address)),
      kind_(kind),
      folder_(root / "sys/bus/pci/devices" / address_) {
  void* shared =
      ::mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  state_ = new (shared) State(kind_);
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
unsigned SecurityProcessor::setting(unsigned number) const { return state_->model.setting(number); }
void SecurityProcessor::Set(unsigned number, unsigned value) { state_->model.Set(number, value); }
int SecurityProcessor::resets() const { return state_->resets; }
int SecurityProcessor::accesses() const { return state_->accesses; }
void SecurityProcessor::TakeEffect() { state_->model.TakeEffect(); }
std::string SecurityProcessor::mode() const { return std::string(state_->model.mode()); }

// sysfs has told the device to start anew: seen at its next access.
void SecurityProcessor::LookForReset() {
  std::error_code error;
  if (fs::file_size(folder_ / "reset", error) == 0 || error) return;
  std::ofstream(folder_ / "reset", std::ios::trunc);
  ++state_->resets;
  state_->model.faults() = state_->faults;
  state_->model.Reset();
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
  state_->model.faults() = state_->faults;
  return state_->model.Read(offset);
}

void SecurityProcessor::Write(std::size_t offset, std::uint32_t value) {
  LookForReset();
  Count();
  state_->model.faults() = state_->faults;
  state_->model.Write(offset, value);
}

}  // namespace pitcrew::test_support
