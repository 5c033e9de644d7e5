// Devices that are plugged in while the pod runs, and those of them that VFIO has not got yet.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/uevent.h"
#include "io/stop.h"
#include "node/vfio/handover.h"
#include "node/vfio/node.h"
#include "node/vfio_manager/options.h"

namespace pitcrew::node::vfio_manager {

// Used by one thread; options and settings must outlive it.
class PluggedIn {
 public:
  PluggedIn(const Options& options, const vfio::Settings& settings)
      : options_(options), settings_(settings) {}

  void Note(const host::UeventReceiver::Batch& batch);
  // When Give has something to do; never while nothing waits.
  [[nodiscard]] base::Deadline due() const { return due_; }
  // Gives VFIO what was noted, and what it could not have before. What fails is tried again, after
  // ever longer pauses, until it succeeds, the device is gone, or somebody has bound it to another
  // driver; it is told when it fails otherwise than the last time. The error is the stop.
  base::Status Give(const io::StopToken& stop);

 private:
  struct Failure {
    std::string driver;  // that the device had afterwards; "" for none, "?" when it is not known
    std::string what;
  };

  // Those to try now. `waiting_` keeps what is known of the ones that were tried before.
  std::set<gpu::PciAddress> TakeBoards(const vfio::Node& node);
  base::Status Try(const gpu::PciAddress& board, const io::StopToken& stop);
  void SetPause();

  const Options& options_;
  const vfio::Settings& settings_;
  std::set<gpu::PciAddress> found_;  // functions that the kernel has told of
  bool lost_ = false;                // the kernel's word: any device may have come
  std::map<gpu::PciAddress, Failure> waiting_;
  int failures_ = 0;  // one after another
  base::Deadline due_;
};

}  // namespace pitcrew::node::vfio_manager
