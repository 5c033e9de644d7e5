#include "kube/leader.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "base/log.h"

namespace pitcrew::kube {

using base::SteadyClock;
using base::WallClock;
using codec::Json;

namespace {

std::optional<WallClock::time_point> ReadTime(const Json& lease, std::string_view name) {
  const auto text = codec::FindString(lease, {"spec", name});
  if (text.empty()) return std::nullopt;
  const auto time = base::ParseRfc3339(text);
  return time ? std::optional(*time) : std::nullopt;
}

// One contender for one lease; of one thread at a time.
class Elector {
 public:
  Elector(Client& client, const LeaderOptions& options) : client_(client), options_(options) {}

  // True when the lease is ours after this try. Reading, writing and all waits between end with the
  // deadline.
  base::Result<bool> TryAcquireOrRenew(SteadyClock::time_point deadline,
                                       const io::StopToken& stop) {
    TRY(Observe(deadline, stop));
    const auto record = NextLeaseRecord(options_, observed_, WallClock::now(), SteadyClock::now());
    if (!record) return false;
    TRY(Write(*record, deadline, stop));
    return true;
  }

  // Tells the others that nobody holds the lease, if it is still ours.
  base::Status Release() {
    const auto deadline =
        SteadyClock::now() + std::max(options_.retry_period, std::chrono::milliseconds(1000));
    auto released = WriteNobody(deadline);
    if (released || released.error().code != base::Code::kConflict) return released;
    // A renewal that the end cut off was done all the same.
    TRY(Observe(deadline, {}));
    return WriteNobody(deadline);
  }

  [[nodiscard]] std::string holder() const { return observed_ ? observed_->record.holder : ""; }

 private:
  base::Status WriteNobody(SteadyClock::time_point deadline) {
    if (!observed_ || observed_->record.holder != options_.identity) return {};
    LeaseRecord record = observed_->record;
    record.holder.clear();
    record.duration = std::chrono::seconds(1);
    record.acquired = record.renewed = WallClock::now();
    return Write(record, deadline, {});
  }

  base::Result<Json> Send(const Request& request, SteadyClock::time_point deadline,
                          const io::StopToken& stop) {
    using std::chrono::milliseconds;
    // The renew deadline has room for a connection that dies without a word: it is suspected after
    // a tenth and replaced 3 s later (client-go finds out after 45 s and loses the lease). A
    // request without an answer leaves time for two more.
    CallLimits limits{.timeout = std::max(options_.renew_deadline / 3, milliseconds(1000)),
                      .deadline = deadline,
                      .suspect_after = options_.renew_deadline / 10,
                      .retry = {}};
    limits.retry.backoff.cap = options_.retry_period;
    TRY_ASSIGN(const auto body, client_.Send(request, limits, stop));
    return codec::ParseJson(body, "lease");
  }

  base::Status Observe(SteadyClock::time_point deadline, const io::StopToken& stop) {
    auto lease = Send(GetRequest(kLeases, options_.lease), deadline, stop);
    if (!lease && lease.error().code == base::Code::kNotFound) {
      observed_.reset();
      lease_ = nullptr;
      return {};
    }
    if (!lease) return base::Fail(std::move(lease).error());
    Remember(*std::move(lease));
    return {};
  }

  void Remember(Json lease) {
    const LeaseRecord record = ReadLease(lease);
    lease_ = std::move(lease);
    if (!observed_ || observed_->record != record) {
      observed_ = ObservedLease{.record = record, .seen_at = SteadyClock::now()};
    }
  }

  base::Status Write(const LeaseRecord& record, SteadyClock::time_point deadline,
                     const io::StopToken& stop) {
    Json lease = lease_;
    const bool fresh = lease.is_null();
    if (fresh) {
      lease = {{"metadata",
                {{"namespace", options_.lease.namespace_name}, {"name", options_.lease.name}}}};
    }
    WriteLease(lease, record);
    // With the resource version in it, so that of two contenders one gets a conflict.
    TRY_ASSIGN(const Request request,
               fresh ? CreateRequest(kLeases, lease, {}) : UpdateRequest(kLeases, lease, {}));
    TRY_ASSIGN(Json written, Send(request, deadline, stop));
    Remember(std::move(written));
    return {};
  }

  Client& client_;
  const LeaderOptions& options_;
  Json lease_;  // as the server gave it; null when there is none
  std::optional<ObservedLease> observed_;
};

// How long the last success entitles us to lead. Counted from before the request was sent: others
// count from when they see its effect, which is later.
class Term {
 public:
  Term(SteadyClock::time_point begun, std::chrono::milliseconds renew_deadline)
      : renew_deadline_(renew_deadline) {
    Extend(begun);
  }
  void Extend(SteadyClock::time_point begun) { end_ = begun + renew_deadline_; }
  [[nodiscard]] SteadyClock::time_point end() const { return end_; }

 private:
  const std::chrono::milliseconds renew_deadline_;
  std::atomic<SteadyClock::time_point> end_;
};

// Renews until `done`, until the term has ended or until somebody else holds the lease; false then.
bool KeepRenewing(Elector& elector, const LeaderOptions& options, Term& term,
                  const io::StopToken& done) {
  SteadyClock::duration pause = options.retry_period;
  for (;;) {
    const auto left = term.end() - SteadyClock::now();
    if (done.WaitFor(std::max(SteadyClock::duration::zero(), std::min(pause, left)))) return true;
    const auto begun = SteadyClock::now();
    if (begun >= term.end()) return false;
    const auto renewed = elector.TryAcquireOrRenew(term.end(), done);
    pause = options.retry_period;
    if (renewed && *renewed) {
      term.Extend(begun);
    } else if (renewed) {
      return false;
    } else if (!done.stopped()) {
      // Who has waited for an answer longer than that tries again at once, on another connection:
      // the term is short.
      pause -= SteadyClock::now() - begun;
      base::LogWarning("lease could not be renewed", renewed.error(),
                       {{"lease", options.lease.ToString()}});
    }
  }
}

// The moment at which the try began that made us leader.
base::Result<SteadyClock::time_point> WaitForLeadership(Elector& elector,
                                                        const LeaderOptions& options,
                                                        const io::StopToken& stop) {
  std::mt19937 random{std::random_device{}()};
  std::string known_holder;
  for (;;) {
    const auto begun = SteadyClock::now();
    const auto acquired = elector.TryAcquireOrRenew(begun + options.renew_deadline, stop);
    if (acquired && *acquired) return begun;
    if (!acquired && !stop.stopped()) {
      base::LogWarning("lease could not be acquired", acquired.error(),
                       {{"lease", options.lease.ToString()}});
    }
    if (const auto holder = elector.holder(); holder != known_holder) {
      known_holder = holder;
      base::LogInfo("waiting for leadership",
                    {{"lease", options.lease.ToString()}, {"leader", holder}});
    }
    // client-go's JitterUntil with a factor of 1.2.
    const double share = std::uniform_real_distribution<double>(1.0, 2.2)(random);
    if (stop.WaitFor(
            std::chrono::duration_cast<std::chrono::nanoseconds>(options.retry_period * share))) {
      return base::Fail({base::Code::kCancelled, "Stopped", "stopped while waiting to lead"});
    }
  }
}

}  // namespace

LeaseRecord ReadLease(const Json& lease) {
  const auto integer = [&](std::string_view name) {
    const Json* value = codec::Find(lease, {"spec", name});
    return value != nullptr && value->is_number_integer() ? value->get<int>() : 0;
  };
  return {.holder = codec::FindString(lease, {"spec", "holderIdentity"}),
          .duration = std::chrono::seconds(integer("leaseDurationSeconds")),
          .acquired = ReadTime(lease, "acquireTime"),
          .renewed = ReadTime(lease, "renewTime"),
          .transitions = integer("leaseTransitions")};
}

void WriteLease(Json& lease, const LeaseRecord& record) {
  Json& spec = lease["spec"];
  spec["holderIdentity"] = record.holder;
  spec["leaseDurationSeconds"] = record.duration.count();
  spec["leaseTransitions"] = record.transitions;
  if (record.acquired) spec["acquireTime"] = base::FormatRfc3339(*record.acquired, 6);
  if (record.renewed) spec["renewTime"] = base::FormatRfc3339(*record.renewed, 6);
}

std::optional<LeaseRecord> NextLeaseRecord(const LeaderOptions& options,
                                           const std::optional<ObservedLease>& existing,
                                           WallClock::time_point wall_now,
                                           SteadyClock::time_point now) {
  LeaseRecord mine{.holder = options.identity,
                   .duration = std::chrono::ceil<std::chrono::seconds>(options.lease_duration),
                   .acquired = wall_now,
                   .renewed = wall_now,
                   .transitions = 0};
  if (!existing) return mine;
  const LeaseRecord& held = existing->record;
  if (held.holder == options.identity) {
    mine.acquired = held.acquired;
    mine.transitions = held.transitions;
    return mine;
  }
  const bool alive = !held.holder.empty() && now < existing->seen_at + held.duration;
  if (alive) return std::nullopt;
  mine.transitions = held.transitions + 1;
  return mine;
}

base::Status RunWhileLeader(Client& client, const LeaderOptions& options,
                            const std::function<base::Status(const io::StopToken&)>& lead,
                            const io::StopToken& stop) {
  Elector elector(client, options);
  TRY_ASSIGN(const auto begun, WaitForLeadership(elector, options, stop));
  base::LogInfo("leading", {{"lease", options.lease.ToString()}, {"identity", options.identity}});
  Term term(begun, options.renew_deadline);
  const io::StopSource work;      // stops `lead`
  const io::StopSource renewing;  // stops the renewal
  std::atomic<bool> lost{false};
  std::thread renewer([&] {
    if (KeepRenewing(elector, options, term, renewing.token())) return;
    lost = true;
    work.Stop();
  });
  // The term ends on time, whatever the renewal is busy with (a credential plugin, a name server).
  std::thread stopper([&] {
    for (;;) {
      const auto end = term.end();
      const auto stopped = io::WaitReadable({stop.fd()}, work.token(), end);
      if (!stopped && stopped.error().code == base::Code::kTimeout) {
        if (term.end() > end) continue;  // renewed meanwhile
        lost = true;
        renewing.Stop();
      }
      work.Stop();
      return;
    }
  });
  auto result = lead(work.token());
  renewing.Stop();
  work.Stop();
  renewer.join();
  stopper.join();
  if (lost) {
    return base::Fail(base::Unavailable(
        "LeadershipLost",
        fmt::format("lease {} could not be renewed in time", options.lease.ToString())));
  }
  if (options.release_on_stop) {
    if (const auto released = elector.Release(); !released) {
      base::LogWarning("lease could not be released", released.error(),
                       {{"lease", options.lease.ToString()}});
    }
  }
  return result;
}

std::string MakeLeaderIdentity() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::random_device random;
  std::array<std::uint32_t, 4> words{};
  for (auto& word : words) word = random();
  // Version 4, variant 1 (RFC 4122).
  words[1] = (words[1] & 0xFFFF0FFFU) | 0x00004000U;
  words[2] = (words[2] & 0x3FFFFFFFU) | 0x80000000U;
  return fmt::format("{}_{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}", host.data(), words[0],
                     words[1] >> 16U, words[1] & 0xFFFFU, words[2] >> 16U, words[2] & 0xFFFFU,
                     words[3]);
}

}  // namespace pitcrew::kube
