// Leader election on a Lease, with the semantics of client-go's leaderelection: others' records are
// judged by when this process saw them change, never by comparing clocks of machines.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "kube/resource.h"

namespace pitcrew::kube {

struct LeaderOptions {
  ObjectKey lease{};
  std::string identity{};  // unique per process, for example "<pod>_<uuid>"
  std::chrono::milliseconds lease_duration = std::chrono::seconds(15);
  std::chrono::milliseconds renew_deadline = std::chrono::seconds(10);
  std::chrono::milliseconds retry_period = std::chrono::seconds(2);
  bool release_on_stop = true;  // lets a successor start at once
};

// The spec of a Lease.
struct LeaseRecord {
  std::string holder{};
  std::chrono::seconds duration{0};
  std::optional<base::WallClock::time_point> acquired{};
  std::optional<base::WallClock::time_point> renewed{};
  int transitions = 0;

  bool operator==(const LeaseRecord&) const = default;
};
LeaseRecord ReadLease(const codec::Json& lease);
// Writes the record into the object's spec.
void WriteLease(codec::Json& lease, const LeaseRecord& record);

// A record and when this process saw it for the first time.
struct ObservedLease {
  LeaseRecord record;
  base::SteadyClock::time_point seen_at;
};

// The record to write in order to become or stay leader, or nothing while another holds a live
// lease. `existing` is nothing when there is no Lease yet.
std::optional<LeaseRecord> NextLeaseRecord(const LeaderOptions& options,
                                           const std::optional<ObservedLease>& existing,
                                           base::WallClock::time_point wall_now,
                                           base::SteadyClock::time_point now);

// Waits for leadership, then calls `lead` on this thread while another thread renews. `lead` must
// return soon after its token stops: on `stop`, or renew_deadline after the last successful renewal
// was sent. As renew_deadline is shorter than lease_duration, nobody else can have taken the lease
// by then. Returns what `lead` returned; kUnavailable "LeadershipLost" when the lease was
// lost; kCancelled when stopped before being elected.
base::Status RunWhileLeader(Client& client, const LeaderOptions& options,
                            const std::function<base::Status(const io::StopToken&)>& lead,
                            const io::StopToken& stop);

// "<host name>_<random UUID>".
std::string MakeLeaderIdentity();

}  // namespace pitcrew::kube
