// Writes the status of the object that a controller follows, and tells Events of what changed in
// it. Which kind of object it is, is a value: a ClusterPolicy, a NVIDIADriver, later a
// GPUCluster.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "codec/json.h"
#include "desired/owner.h"
#include "io/stop.h"
#include "kube/client.h"
#include "kube/events.h"
#include "kube/resource.h"

namespace pitcrew::gpu_operator {

// The object, as it was seen last.
struct StatusSubject {
  desired::Owner owner;
  codec::Json status;         // as stored; null when there is none
  std::uint64_t version = 0;  // resourceVersion
};

// Used by one thread at a time.
class StatusWriter {
 public:
  // `interval`: how often a status is written in which nothing but messages is new. `later`: ask
  // again about the object of that name after that time.
  StatusWriter(std::shared_ptr<kube::Client> client, const kube::ResourceKind& kind,
               kube::EventRecorder& events, std::chrono::milliseconds interval,
               std::function<void(const std::string& name, std::chrono::nanoseconds)> later);

  // `make` gives the new status from the one before; nothing is written when it is the same.
  // Success also when the object is gone, or another one has its name since: that one's status is
  // left to what follows it.
  base::Status Write(const StatusSubject& subject,
                     const std::function<codec::Json(const codec::Json& previous)>& make,
                     const io::StopToken& stop);

 private:
  // Status as it was written last, until the watch has told of it.
  struct Written {
    codec::Json status;
    std::uint64_t version = 0;
    base::SteadyClock::time_point at;
  };
  // Whether a patch was `refused` because nothing has the name `key`, or another object than `uid`.
  bool IsGone(const kube::ObjectKey& key, const std::string& uid, const base::Error& refused,
              const io::StopToken& stop);
  void RecordTransitions(const StatusSubject& subject, const codec::Json& before,
                         const codec::Json& after);

  std::shared_ptr<kube::Client> client_;
  const kube::ResourceKind& kind_;
  kube::EventRecorder& events_;
  std::chrono::milliseconds interval_;
  std::function<void(const std::string& name, std::chrono::nanoseconds)> later_;
  std::map<std::string, Written> written_;  // by uid
};

}  // namespace pitcrew::gpu_operator
