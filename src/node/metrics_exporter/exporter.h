// The exporter's life: rounds by timer, new counters, HTTP (metrics-exporter.md section 2).
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "io/file_watcher.h"
#include "io/http_server.h"
#include "io/stop.h"
#include "node/metrics_exporter/collector.h"
#include "node/metrics_exporter/options.h"
#include "node/metrics_exporter/page.h"
#include "node/metrics_exporter/web_config.h"

namespace pitcrew::node::metrics_exporter {

class Exporter {
 public:
  // `reload` are the signals that make it read its counters again.
  Exporter(Options options, const io::SignalReceiver& reload, io::StopToken stop);
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // Until the stop, which is no error.
  base::Status Run();
  // 0 until it listens. From any thread.
  [[nodiscard]] int port() const { return port_; }

 private:
  base::Status Begin();
  base::Status Listen();
  base::Result<CounterFile> ReadCounters() const;
  // At the start every mistake is an error; later the counters of before go on.
  base::Status TakeCounters(bool at_start);
  void Collect();
  base::Status HandleFileChanges();
  // Since it was last asked.
  bool CounterFileChanged();

  const Options options_;
  const io::SignalReceiver& reload_;
  const io::StopToken stop_;
  std::unique_ptr<Collector> collector_;
  std::optional<io::FileWatcher> watcher_;
  std::vector<Counter> counters_;
  std::filesystem::file_time_type counters_from_{};  // of the file that was read last
  Page page_;
  WebRules web_rules_;
  std::unique_ptr<io::HttpServer> server_;
  std::atomic<int> port_ = 0;
};

}  // namespace pitcrew::node::metrics_exporter
