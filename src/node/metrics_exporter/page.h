// What /metrics answers: the last complete round, with the pods that have the devices now.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "io/stop.h"
#include "node/metrics_exporter/claimed_devices.h"
#include "node/metrics_exporter/options.h"
#include "node/metrics_exporter/pod_facts.h"
#include "node/metrics_exporter/series.h"
#include "prom/exposition.h"
#include "rpc/pod_resources.h"

namespace pitcrew::node::metrics_exporter {

// Which pods have which devices, by the kubelet. Thread-safe.
class PodListing {
 public:
  explicit PodListing(std::filesystem::path socket);

  struct Answer {
    std::shared_ptr<const std::vector<rpc::PodDevices>> pods;  // null: not known
    std::optional<std::chrono::duration<double>> age;          // of them
  };
  // As the kubelet says now. When it does not answer within `limit`, as it said last, for two
  // minutes: then nothing is known any more.
  Answer Now(std::chrono::milliseconds limit);

 private:
  const rpc::PodResources kubelet_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<const std::vector<rpc::PodDevices>> last_;
  base::SteadyClock::time_point listed_{};
  std::string told_;  // the trouble that was logged last; empty: none
};

// Thread-safe.
class Page {
 public:
  explicit Page(const Options& options);

  void Publish(std::shared_ptr<const Round> round);
  // No counters are known at the moment: pages are empty.
  void Withdraw();
  [[nodiscard]] bool available() const;

  // Watches pods; null where neither their labels nor their UIDs are wanted.
  void SetPods(std::unique_ptr<PodWatch> pods) { pod_watch_ = std::move(pods); }
  // Watches what claims can mean; null where claims are not looked at.
  void SetSlices(std::unique_ptr<SliceWatch> slices) { slice_watch_ = std::move(slices); }

  // An error when what was asked for besides cannot be read (jobs). Never waits for NVML.
  base::Result<std::string> Text();

 private:
  [[nodiscard]] std::shared_ptr<const Round> Current() const;
  [[nodiscard]] std::map<unsigned, std::string> PodsOfProcesses(const Round& round) const;
  // The exporter's own series.
  [[nodiscard]] std::string OwnText(const Round& round,
                                    const std::optional<PodListing::Answer>& pods) const;

  const Options& options_;
  TextOptions text_options_;
  std::optional<PodListing> listing_;
  std::unique_ptr<PodWatch> pod_watch_;
  std::unique_ptr<SliceWatch> slice_watch_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Round> round_;  // guarded by mutex_
};

}  // namespace pitcrew::node::metrics_exporter
