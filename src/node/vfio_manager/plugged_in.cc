#include "node/vfio_manager/plugged_in.h"

#include <tuple>
#include <utility>

#include "base/log.h"
#include "host/root.h"
#include "kube/retry.h"
#include "node/vfio/bundle.h"
#include "node/vfio_manager/conclude.h"

namespace pitcrew::node::vfio_manager {
namespace {

constexpr kube::BackoffPolicy kPauses{.base = std::chrono::seconds(1),
                                      .cap = std::chrono::minutes(5)};

// The GPU, or NVSwitch, of the board that a function belongs to.
gpu::PciAddress BoardOf(gpu::PciAddress address) {
  address.function = 0;
  return address;
}

// Functions that the kernel has found. What somebody lets the kernel say again (udevadm trigger, a
// write to a device's uevent) tells of nothing new.
std::set<gpu::PciAddress> FoundBy(const host::UeventReceiver::Batch& batch) {
  std::set<gpu::PciAddress> found;
  for (const auto& event : batch.events) {
    const auto slot = event.fields.find("PCI_SLOT_NAME");
    if (event.action != "add" || event.subsystem() != "pci" || slot == event.fields.end()) continue;
    if (event.fields.contains("SYNTH_UUID")) continue;
    if (const auto address = gpu::PciAddress::Parse(slot->second)) found.insert(*address);
  }
  return found;
}

// The boards of those that are there. Who makes virtual functions has a driver that does.
std::set<gpu::PciAddress> BoardsOf(const std::set<gpu::PciAddress>& functions,
                                   const vfio::Node& node) {
  std::set<gpu::PciAddress> boards;
  for (const auto& address : functions) {
    const auto* device = node.Find(address);
    if (device == nullptr || !device->physical_function.is_absent()) continue;
    boards.insert(BoardOf(address));
  }
  return boards;
}

// Those of `node` that no driver has: what may have come while the kernel's word was lost.
std::set<gpu::PciAddress> WithoutDriver(const vfio::Node& node) {
  std::set<gpu::PciAddress> boards;
  for (const auto& device : node.scan.devices) {
    const bool is_board = device.address.function == 0 && device.physical_function.is_absent();
    if (is_board && device.driver.is_absent()) boards.insert(device.address);
  }
  return boards;
}

}  // namespace

void PluggedIn::Note(const host::UeventReceiver::Batch& batch) {
  const auto found = FoundBy(batch);
  if (found.empty() && !batch.lost) return;
  for (const auto& address : found) waiting_.erase(BoardOf(address));  // another board, maybe
  found_.insert(found.begin(), found.end());
  lost_ = lost_ || batch.lost;
  failures_ = 0;
  due_ = base::Deadline::After({});
}

base::Status PluggedIn::Give(const io::StopToken& stop) {
  const auto node = vfio::ReadNode(settings_);
  if (node) {
    for (const auto& board : TakeBoards(*node)) {
      const auto devices =
          vfio::SelectDevices(*node, {.device = board, .switches = options_.switches});
      if (!devices) continue;  // it cannot be read now, or is gone again
      if (devices->empty()) {
        waiting_.erase(board);  // somebody else's device
      } else {
        TRY(Try(board, stop));
      }
    }
  } else {
    base::LogWarning("Devices that were plugged in stay as they are for now", node.error());
  }
  SetPause();
  return {};
}

std::set<gpu::PciAddress> PluggedIn::TakeBoards(const vfio::Node& node) {
  auto boards = BoardsOf(std::exchange(found_, {}), node);
  if (std::exchange(lost_, false)) boards.merge(WithoutDriver(node));
  std::erase_if(waiting_, [&](const auto& waiting) {
    const auto& [board, failure] = waiting;
    const auto* device = node.Find(board);
    // One that is listed and cannot be read is not gone.
    if (device == nullptr) {
      const auto folder = settings_.root.At("/sys/bus/pci/devices") / board.SysfsName();
      return !host::Exists(folder).value_or(true);
    }
    const auto* driver = device->driver.value();
    if (driver == nullptr || *driver == failure.driver || failure.driver == "?") return false;
    base::LogInfo("Somebody has bound a device that was plugged in: it is left alone",
                  {{"device", board.SysfsName()}, {"driver", *driver}});
    return true;
  });
  for (const auto& [board, failure] : waiting_) boards.insert(board);
  return boards;
}

base::Status PluggedIn::Try(const gpu::PciAddress& board, const io::StopToken& stop) {
  const vfio::Selection selection{.device = board, .switches = options_.switches};
  const auto report =
      vfio::GiveToVfio(settings_, selection, base::Deadline::After(options_.timeout), stop);
  if (!report && report.error().code == base::Code::kCancelled) return base::Fail(report.error());
  if (!report) {
    base::LogWarning("A device that was plugged in stays as it is for now", report.error(),
                     {{"device", board.SysfsName()}});
    waiting_.try_emplace(board, Failure{.driver = "?", .what = ""});
    return {};
  }
  Failure now{.driver = "?", .what = ""};
  for (const auto& device : report->devices) {
    if (device.device == board) now.driver = device.driver;
    if (device.failure) now.what += device.device.SysfsName() + device.failure->ToString();
  }
  const auto before = waiting_.find(board);
  const bool is_news = before == waiting_.end() || before->second.what != now.what;
  if (is_news) std::ignore = Conclude(options_, *report);  // it has logged each failure
  if (report->done()) {
    waiting_.erase(board);
  } else {
    waiting_[board] = now;
  }
  return {};
}

void PluggedIn::SetPause() {
  const bool again = !waiting_.empty() || !found_.empty() || lost_;
  failures_ = again ? failures_ + 1 : 0;
  due_ = again ? base::Deadline::After(kPauses.Delay(failures_)) : base::Deadline::Never();
}

}  // namespace pitcrew::node::vfio_manager
