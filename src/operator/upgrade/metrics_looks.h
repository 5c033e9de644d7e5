// Asks the metrics exporters of nodes that have got a new driver first what has happened to their
// GPUs since (driver_upgrade/metrics_note.h decides what that says). What was found stands in an
// annotation of the node: the next leader goes on with it, and `status` and `doctor` read it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "api/upgrade_schedule.h"
#include "base/result.h"
#include "codec/json.h"
#include "driver_upgrade/metrics_note.h"
#include "io/http_client.h"
#include "io/stop.h"
#include "kube/informer.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

// Where a pod of the metrics exporter listens: the address of its page; "" while it is not ready.
std::string MetricsUrlOf(const codec::Json& pod);

class MetricsLooks {
 public:
  // `ask` is called with a followed node whose exporter has become another one, or ready: Look is
  // to be called. From other threads; it must not block. `world` must outlive this object.
  MetricsLooks(World& world, std::function<void(const std::string& node)> ask);

  // Watches the exporters on these nodes, and on no others. By one thread.
  void Follow(const std::set<std::string>& nodes);

  // Looks at the node if there is reason to (IsLookDue, or its exporter can be asked for the first
  // time or after something was wrong), and remembers it. What a person is to be told, if that is
  // news. Thread-safe; one call at a time for a node.
  base::Result<std::optional<std::string>> Look(const std::string& node,
                                                const api::UpgradeCanary& canary,
                                                const io::StopToken& stop);

 private:
  base::Result<std::string> FindExporter(const std::string& node, const io::StopToken& stop);
  base::Result<driver_upgrade::GpuReadings> Read(const std::string& url, const io::StopToken& stop);
  base::Result<io::HttpClient*> Http();

  World& world_;
  const std::function<void(const std::string&)> ask_;
  std::mutex http_mutex_;
  std::unique_ptr<io::HttpClient> http_;  // made when it is needed
  // Their views are the exporters' addresses.
  std::map<std::string, std::unique_ptr<kube::Informer<std::string>>> exporters_;  // by node
};

}  // namespace pitcrew::gpu_operator
