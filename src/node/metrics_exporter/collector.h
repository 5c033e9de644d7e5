// Reads a node's GPUs, round by round.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bell.h"
#include "base/result.h"
#include "io/stop.h"
#include "node/metrics_exporter/options.h"
#include "node/metrics_exporter/round.h"
#include "nvml/nvml.h"

namespace pitcrew::node::metrics_exporter {

// XIDs as the driver tells of them, on a thread of its own.
class XidListener {
 public:
  struct Heard {
    TimePoint time;
    nvml::Event event;
  };
  // `library` is used until this object ends.
  explicit XidListener(std::shared_ptr<nvml::Library> library);
  ~XidListener();
  XidListener(const XidListener&) = delete;
  XidListener& operator=(const XidListener&) = delete;

  // Listens to these GPUs too, unless it does so already. What other GPUs say in the meantime is
  // heard: a lost one leaves the list, and XIDs come in groups. A GPU that was away is listened to
  // anew, since a reset ends what it was registered for. One that cannot be listened to is logged.
  void Follow(const std::vector<std::string>& uuids);
  // What came since the last call.
  std::vector<Heard> Take();

 private:
  // Null where the driver has none; why is logged once.
  std::unique_ptr<nvml::EventSet> MakeEventSet();
  void Stop();
  void Listen();

  const std::shared_ptr<nvml::Library> library_;
  std::vector<std::string> followed_;       // of the last call
  std::string refusal_;                     // of the last event set that could not be made
  std::unique_ptr<nvml::EventSet> events_;  // the thread waits on it while it runs
  std::unique_ptr<io::StopSource> stop_;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<Heard> heard_;  // guarded by mutex_
  bool failed_ = false;       // guarded by mutex_: the thread has ended by an error
};

// Used by one thread.
class Collector {
 public:
  // Opens NVML. An error when there is no driver.
  static base::Result<std::unique_ptr<Collector>> Open(const Options& options);

  // An error when the driver as a whole cannot be asked. The first round must find the devices that
  // the options name.
  base::Result<Round> Collect(const std::vector<Counter>& counters);

 private:
  Collector(const Options& options, std::shared_ptr<nvml::Library> library);
  // Links that are up, for counters that are about links.
  LinksUp FindLinks(const std::vector<Counter>& counters, const gpu::Inventory& inventory);
  void TakeXids();

  const Options& options_;
  std::shared_ptr<nvml::Library> library_;
  std::shared_ptr<nvml::Meter> meter_;
  std::shared_ptr<nvml::Meter> link_meter_;
  XidListener xids_;
  History history_;
  bool first_ = true;
};

}  // namespace pitcrew::node::metrics_exporter
