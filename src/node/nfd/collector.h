// Keeps what every source found last and makes the NodeFeature's content of it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "codec/json.h"
#include "node/nfd/features.h"
#include "node/nfd/host_paths.h"
#include "node/nfd/worker_config.h"

namespace pitcrew::node::nfd {

class Collector {
 public:
  Collector(WorkerConfig config, HostPaths paths, std::string node_name);

  // Takes over what an earlier worker published (a NodeFeature's "spec"), for sources that cannot
  // be read at the first try. Before the first discovery.
  void Restore(const codec::Json& spec);

  // Asks every enabled source, or one of them. A source that fails keeps what it found before.
  void DiscoverAll(base::WallClock::time_point now);
  void Discover(const std::string& source, base::WallClock::time_point now);

  // The object's "spec" as it should be now.
  [[nodiscard]] codec::Json Spec();
  // Why a source could not be read at its last try.
  [[nodiscard]] const std::map<std::string, base::Error>& troubles() const { return troubles_; }
  // When a line of a feature file expires next.
  [[nodiscard]] std::optional<base::WallClock::time_point> next_expiry() const {
    return next_expiry_;
  }

 private:
  base::Result<Discovery> Ask(const std::string& source, base::WallClock::time_point now);
  [[nodiscard]] Labels AllLabels(const Features& features);
  // Logs what cannot be published, once and not at every pass.
  void Tell(const std::string& source, const base::Error& left_out);
  [[nodiscard]] Features AllFeatures() const;

  WorkerConfig config_;
  HostPaths paths_;
  std::string node_name_;
  std::map<std::string, Discovery> found_;  // by source
  std::map<std::string, base::Error> troubles_;
  std::set<std::string> told_;  // messages
  std::optional<base::WallClock::time_point> next_expiry_;
};

// Whether `feature` matches one of the patterns: equal, or a prefix that ends in "*".
bool MatchesFeaturePattern(std::string_view feature, const std::vector<std::string>& patterns);

}  // namespace pitcrew::node::nfd
