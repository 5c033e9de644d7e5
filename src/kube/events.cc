#include "kube/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "io/stop.h"

namespace pitcrew::kube {

using base::WallClock;
using codec::Json;

namespace {

constexpr std::size_t kLongestMessage = 1024;  // the API's limit
constexpr std::size_t kLongestName = 253;
constexpr std::size_t kLongestQueue = 256;
constexpr std::chrono::seconds kFlushTime{2};

std::uint64_t Hash(std::string_view text) {  // FNV-1a: the same in every process
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

std::string AboutKey(const ObjectReference& about) {
  return fmt::format("{}/{}/{}/{}", about.api_version, about.kind, about.key.ToString(), about.uid);
}

std::string TypeName(EventType type) { return type == EventType::kNormal ? "Normal" : "Warning"; }

std::string Identity(const Event& event) {
  return fmt::format("{}|{}|{}|{}", AboutKey(event.about), TypeName(event.type), event.reason,
                     event.message);
}

std::string NamespaceOf(const Event& event) {
  // Events about cluster-scoped objects live in "default".
  return event.about.key.namespace_name.empty() ? "default" : event.about.key.namespace_name;
}

// At most `length` bytes, without half a UTF-8 character at the end.
std::string Cut(std::string text, std::size_t length) {
  if (text.size() <= length) return text;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  text.resize(length);
  return text;
}

}  // namespace

ObjectReference ReferenceTo(const ResourceKind& kind, const Json& object) {
  return {.api_version = kind.api_version(),
          .kind = std::string(kind.kind),
          .key = KeyOf(object),
          .uid = codec::FindString(object, {"metadata", "uid"}),
          .resource_version = codec::FindString(object, {"metadata", "resourceVersion"})};
}

ObjectReference ReferenceTo(const ResourceKind& kind, const ObjectMeta& meta) {
  return {.api_version = kind.api_version(),
          .kind = std::string(kind.kind),
          .key = meta.key,
          .uid = meta.uid,
          .resource_version = meta.resource_version};
}

bool EventAggregator::Spend(const std::string& about, WallClock::time_point now) {
  if (buckets_.size() >= limits_.remembered && !buckets_.contains(about)) buckets_.clear();
  const auto [found, fresh] = buckets_.try_emplace(
      about, Bucket{.tokens = static_cast<double>(limits_.burst), .filled_at = now});
  Bucket& bucket = found->second;
  if (!fresh) {
    const double gained = std::chrono::duration<double>(now - bucket.filled_at) /
                          std::chrono::duration<double>(limits_.interval);
    bucket.tokens =
        std::min(static_cast<double>(limits_.burst), bucket.tokens + std::max(0.0, gained));
    bucket.filled_at = now;
  }
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

EventAggregator::Decision EventAggregator::Decide(const Event& event, WallClock::time_point now) {
  const std::string identity = Identity(event);
  Decision decision;
  if (!Spend(AboutKey(event.about), now)) {
    decision.kind = Decision::Kind::kSilence;
    return decision;
  }
  if (const auto found = seen_.find(identity); found != seen_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    Seen& seen = found->second->second;
    ++seen.count;
    return {.kind = Decision::Kind::kCount,
            .name = seen.name,
            .count = seen.count,
            .first_seen = seen.first_seen};
  }
  const std::string hash = fmt::format(".{:016x}", Hash(identity));
  const Seen seen{.name = Cut(event.about.key.name, kLongestName - hash.size()) + hash,
                  .count = 1,
                  .first_seen = now};
  recent_.emplace_front(identity, seen);
  seen_[identity] = recent_.begin();
  if (recent_.size() > limits_.remembered) {
    seen_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return {.kind = Decision::Kind::kCreate, .name = seen.name, .count = 1, .first_seen = now};
}

void EventAggregator::Adopt(const Event& event, int count) {
  if (const auto found = seen_.find(Identity(event)); found != seen_.end()) {
    found->second->second.count = count;
  }
}

Json MakeEventObject(const Event& event, const EventAggregator::Decision& decision,
                     std::string_view component, std::string_view instance,
                     WallClock::time_point now) {
  Json involved{{"apiVersion", event.about.api_version},
                {"kind", event.about.kind},
                {"name", event.about.key.name}};
  if (!event.about.key.namespace_name.empty()) {
    involved["namespace"] = event.about.key.namespace_name;
  }
  if (!event.about.uid.empty()) involved["uid"] = event.about.uid;
  if (!event.about.resource_version.empty()) {
    involved["resourceVersion"] = event.about.resource_version;
  }
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata", {{"namespace", NamespaceOf(event)}, {"name", decision.name}}},
          {"involvedObject", std::move(involved)},
          {"type", TypeName(event.type)},
          {"reason", event.reason},
          {"message", Cut(event.message, kLongestMessage)},
          {"source", {{"component", component}, {"host", instance}}},
          {"reportingComponent", component},
          {"reportingInstance", instance},
          {"firstTimestamp", base::FormatRfc3339(decision.first_seen)},
          {"lastTimestamp", base::FormatRfc3339(now)},
          {"count", decision.count}};
}

struct EventRecorder::Implementation {
  Implementation(std::shared_ptr<Client> client_in, std::string component_in,
                 std::string instance_in)
      : client(std::move(client_in)),
        component(std::move(component_in)),
        instance(std::move(instance_in)),
        thread([this] { Run(); }) {}

  void Run();
  void Send(const Event& event);
  base::Status Create(const Event& event, const EventAggregator::Decision& decision,
                      WallClock::time_point now);
  base::Status Count(const Event& event, const EventAggregator::Decision& decision,
                     WallClock::time_point now);

  const std::shared_ptr<Client> client;
  const std::string component;
  const std::string instance;
  EventAggregator aggregator;  // of the thread
  const io::StopSource stop;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Event> waiting;
  bool sending = false;
  bool quit = false;

  std::thread thread;
};

base::Status EventRecorder::Implementation::Create(const Event& event,
                                                   const EventAggregator::Decision& decision,
                                                   WallClock::time_point now) {
  const auto created = client->Create(
      kEvents, MakeEventObject(event, decision, component, instance, now), {}, stop.token());
  if (created) return {};
  if (created.error().code != base::Code::kExists) return base::Fail(created.error());
  // Told before this process began: go on counting there.
  auto further = decision;
  if (const auto old = client->Get(
          kEvents, {.namespace_name = NamespaceOf(event), .name = decision.name}, stop.token())) {
    const Json* count = codec::Find(*old, {"count"});
    if (count != nullptr && count->is_number_integer()) further.count = count->get<int>() + 1;
    aggregator.Adopt(event, further.count);
  }
  return Count(event, further, now);
}

base::Status EventRecorder::Implementation::Count(const Event& event,
                                                  const EventAggregator::Decision& decision,
                                                  WallClock::time_point now) {
  const Json patch{{"count", decision.count}, {"lastTimestamp", base::FormatRfc3339(now)}};
  TRY(client->Patch(kEvents, {.namespace_name = NamespaceOf(event), .name = decision.name},
                    PatchType::kMerge, patch, {}, stop.token()));
  return {};
}

void EventRecorder::Implementation::Send(const Event& event) {
  const auto now = WallClock::now();
  const auto decision = aggregator.Decide(event, now);
  base::Status sent;
  switch (decision.kind) {
    case EventAggregator::Decision::Kind::kSilence:
      return;
    case EventAggregator::Decision::Kind::kCreate:
      sent = Create(event, decision, now);
      break;
    case EventAggregator::Decision::Kind::kCount:
      sent = Count(event, decision, now);
      // The server forgets events after a while.
      if (!sent && sent.error().code == base::Code::kNotFound) sent = Create(event, decision, now);
      break;
  }
  if (!sent && !stop.token().stopped()) {
    base::LogWarning("event was not recorded", sent.error(),
                     {{"about", event.about.key.ToString()}, {"event", event.reason}});
  }
}

void EventRecorder::Implementation::Run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return quit || !waiting.empty(); });
    if (waiting.empty()) return;
    const Event event = std::move(waiting.front());
    waiting.pop_front();
    sending = true;
    lock.unlock();
    Send(event);
    lock.lock();
    sending = false;
    changed.notify_all();
  }
}

EventRecorder::EventRecorder(std::shared_ptr<Client> client, std::string component,
                             std::string instance)
    : implementation_(std::make_unique<Implementation>(std::move(client), std::move(component),
                                                       std::move(instance))) {}

EventRecorder::~EventRecorder() {
  Implementation& self = *implementation_;
  {
    std::unique_lock lock(self.mutex);
    self.quit = true;
    self.changed.notify_all();
    self.changed.wait_for(lock, kFlushTime, [&] { return self.waiting.empty() && !self.sending; });
    self.waiting.clear();
  }
  self.stop.Stop();
  self.thread.join();
}

void EventRecorder::Record(Event event) {
  Implementation& self = *implementation_;
  const std::scoped_lock lock(self.mutex);
  if (self.waiting.size() >= kLongestQueue) {
    base::LogWarning("too many events wait; one is dropped",
                     {{"about", event.about.key.ToString()}, {"event", event.reason}});
    return;
  }
  self.waiting.push_back(std::move(event));
  self.changed.notify_all();
}

void EventRecorder::Flush() {
  Implementation& self = *implementation_;
  std::unique_lock lock(self.mutex);
  self.changed.wait(lock, [&] { return self.waiting.empty() && !self.sending; });
}

}  // namespace pitcrew::kube
