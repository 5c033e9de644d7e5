// The facts of a running cluster, as of the last event. What nodes do not tell is watched object by
// object; the server's version is read again when the API server may have been upgraded.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "desired/facts.h"
#include "io/stop.h"
#include "operator/watches/named_object.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

class LiveFacts {
 public:
  // `changed` is called when a fact may have become another one, from threads of watches. `world`
  // must outlive this object.
  LiveFacts(World& world, std::function<void()> changed);

  // By one thread. Secrets that are no longer referred to are no longer watched.
  base::Result<desired::Facts> Gather(const desired::References& references,
                                      const io::StopToken& stop);
  // A watch was opened: the server that answers may be newer than the one before. Any thread.
  void ServerMayHaveChanged() { ++openings_; }

 private:
  void ReadServerVersion(const io::StopToken& stop);

  World& world_;
  std::function<void()> changed_;
  std::string kubernetes_version_;
  std::atomic<std::uint64_t> openings_ = 0;
  std::uint64_t version_read_at_ = 0;  // value of openings_
  // On OpenShift only.
  std::optional<NamedObject<std::string>> openshift_version_;
  std::optional<NamedObject<desired::DriverToolkit>> driver_toolkit_;
  std::optional<NamedObject<desired::Proxy>> proxy_;
  // By name; a digest is all that is kept of a Secret.
  std::map<std::string, std::unique_ptr<NamedObject<std::string>>> secrets_;
};

}  // namespace pitcrew::gpu_operator
