// Events about objects, as `kubectl describe` shows them. A repeated event counts up one object.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/result.h"
#include "codec/json.h"
#include "kube/client.h"
#include "kube/resource.h"

namespace pitcrew::kube {

enum class EventType { kNormal, kWarning };

// What an event is about.
struct ObjectReference {
  std::string api_version{};
  std::string kind{};
  ObjectKey key{};
  std::string uid{};
  std::string resource_version{};
};
ObjectReference ReferenceTo(const ResourceKind& kind, const codec::Json& object);
ObjectReference ReferenceTo(const ResourceKind& kind, const ObjectMeta& meta);

struct Event {
  ObjectReference about{};
  EventType type = EventType::kNormal;
  std::string reason{};   // CamelCase
  std::string message{};  // cut at 1024 bytes, the API's limit
};

// What to send for an event: pure, decides between a new object, a higher count and silence.
class EventAggregator {
 public:
  struct Decision {
    enum class Kind { kCreate, kCount, kSilence };
    Kind kind = Kind::kCreate;
    std::string name{};  // of the Event object
    int count = 1;
    base::WallClock::time_point first_seen;
  };
  struct Limits {
    std::size_t remembered = 4096;  // different events
    // Per object: so many at once, then one per interval (client-go's spam filter).
    int burst = 25;
    std::chrono::seconds interval{300};
  };
  EventAggregator() : EventAggregator(Limits{}) {}
  explicit EventAggregator(Limits limits) : limits_(limits) {}

  Decision Decide(const Event& event, base::WallClock::time_point now);
  // The server knew the event already, with this count: later counts go on from there.
  void Adopt(const Event& event, int count);

 private:
  struct Seen {
    std::string name{};
    int count = 0;
    base::WallClock::time_point first_seen;
  };
  struct Bucket {
    double tokens = 0;
    base::WallClock::time_point filled_at;
  };
  bool Spend(const std::string& about, base::WallClock::time_point now);

  Limits limits_;
  std::list<std::pair<std::string, Seen>> recent_;  // most recent first
  std::unordered_map<std::string, std::list<std::pair<std::string, Seen>>::iterator> seen_;
  std::unordered_map<std::string, Bucket> buckets_;
};

// The core/v1 Event object for a decision.
codec::Json MakeEventObject(const Event& event, const EventAggregator::Decision& decision,
                            std::string_view component, std::string_view instance,
                            base::WallClock::time_point now);

// Sends from its own thread, so Record never waits for the server. Best effort: when 256 events
// wait, or the server refuses one, the event is logged and dropped.
class EventRecorder {
 public:
  // `component` for example "my-operator"; `instance` the pod or host.
  EventRecorder(std::shared_ptr<Client> client, std::string component, std::string instance);
  // Sends what waits, for at most two seconds.
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  void Record(Event event);
  // Waits until everything recorded so far was sent or dropped.
  void Flush();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace pitcrew::kube
