// NVML's wait cannot be interrupted, so a thread of its own waits and hands events over by a queue
// and a bell; whoever waits here also watches the stop descriptor. The end of the set waits for the
// thread, one of NVML's timeouts as a rule: a thread that is still in the library when the
// process ends, or that is the one to unload it, brings the process down. One that does not come
// back even then is left behind (HasHangingCalls).
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/bell.h"
#include "base/deadline.h"
#include "nvml/library.h"
#include "nvml/patient_calls.h"

namespace pitcrew::nvml {
namespace {

// One of NVML's waits; upstream's health check uses 5 s (device-plugin.md section 14), for which
// nobody wants to wait at the end.
constexpr unsigned kWaitMilliseconds = 500;
// How long the end of a set waits for a thread in such a wait.
constexpr std::chrono::seconds kLongestEnd{5};

struct Shared {
  Shared(std::shared_ptr<LoadedLibrary> library_in, base::Bell arrived_in)
      : library(std::move(library_in)), arrived(std::move(arrived_in)) {}

  const std::shared_ptr<LoadedLibrary> library;
  abi::EventSet set = nullptr;
  const base::Bell arrived;  // the queue has something
  std::mutex mutex;
  std::condition_variable ended;
  bool waiting = false;    // the thread is in WaitLoop
  bool abandoned = false;  // nobody waits for its end
  std::deque<base::Result<Event>> queue;
  // A GPU that has fallen off the bus reports that, and can no longer be asked for its name.
  std::map<abi::Device, std::string> names;

  ~Shared() {
    const Symbols& nvml = library->symbols();
    if (set != nullptr && nvml.nvmlEventSetFree != nullptr) nvml.nvmlEventSetFree(set);
  }

  void Remember(abi::Device device, std::string_view uuid) {
    const std::lock_guard guard(mutex);
    names[device] = uuid;
  }

  // Empty when the GPU was not registered.
  std::string NameOf(abi::Device device) {
    const std::lock_guard guard(mutex);
    const auto found = names.find(device);
    return found == names.end() ? "" : found->second;
  }

  void Push(base::Result<Event> event) {
    const std::lock_guard guard(mutex);
    queue.push_back(std::move(event));
    arrived.Ring();
  }
};

Event Translate(Shared& shared, const abi::EventData& data) {
  const Symbols& nvml = shared.library->symbols();
  Event event;
  event.type = static_cast<EventType>(data.event_type);
  event.data = data.event_data;
  event.gpu_instance_id = data.gpu_instance_id;
  event.compute_instance_id = data.compute_instance_id;
  event.device_uuid = shared.NameOf(data.device);
  if (!event.device_uuid.empty()) return event;
  event.device_uuid =
      ReadText([&](char* buffer, unsigned size) {
        return NVML_CALL(nvml, nvmlDeviceGetUUID, "name an event's GPU", data.device, buffer, size);
      }).value_or("");
  return event;
}

void WaitForEvents(const std::stop_token& stop, Shared& shared) {
  const Symbols& nvml = shared.library->symbols();
  while (!stop.stop_requested()) {
    abi::EventData data{};
    const abi::Return code = nvml.nvmlEventSetWait_v2(shared.set, &data, kWaitMilliseconds);
    if (code == abi::kTimeout) continue;
    if (code == abi::kSuccess) {
      shared.Push(Translate(shared, data));
      continue;
    }
    // The caller learns of it, and starts over with a new set: a wait that fails at once would
    // otherwise spin.
    shared.Push(base::Fail(FromReturn(code, "wait for GPU events")));
    return;
  }
}

void WaitLoop(const std::stop_token& stop, const std::shared_ptr<Shared>& shared) {
  WaitForEvents(stop, *shared);
  const std::lock_guard guard(shared->mutex);
  shared->waiting = false;
  shared->ended.notify_all();
  if (shared->abandoned) AddHangingCalls(-1);
}

// What a thread that is left behind may still use until the process ends: the last one to let go of
// it would unload the library under that thread. Reachable, so that it is no leak.
void KeepForEver(std::shared_ptr<Shared> shared) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<Shared>>;
  const std::lock_guard guard(mutex);
  kept->push_back(std::move(shared));
}

class NvmlEventSet final : public EventSet {
 public:
  explicit NvmlEventSet(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  ~NvmlEventSet() override {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    std::unique_lock guard(shared_->mutex);
    if (shared_->ended.wait_for(guard, kLongestEnd, [&] { return !shared_->waiting; })) return;
    shared_->abandoned = true;
    AddHangingCalls(1);
    KeepForEver(shared_);
    thread_.detach();
  }

  base::Status Register(std::string_view device_uuid, std::uint64_t mask) override {
    const Symbols& nvml = shared_->library->symbols();
    TRY_ASSIGN(const abi::Device device, shared_->library->FindDevice(device_uuid));
    unsigned long long supported = 0;
    TRY(NVML_CALL(nvml, nvmlDeviceGetSupportedEventTypes, "read a GPU's event types", device,
                  &supported));
    TRY(NVML_CALL(nvml, nvmlDeviceRegisterEvents,
                  "watch the events of GPU " + std::string(device_uuid), device,
                  static_cast<unsigned long long>(mask & supported), shared_->set));
    shared_->Remember(device, device_uuid);
    return {};
  }

  base::Result<Event> Wait(int stop_fd, std::optional<std::chrono::milliseconds> timeout) override {
    if (!thread_.joinable()) {
      shared_->waiting = true;
      thread_ = std::jthread(WaitLoop, shared_);
    }
    const auto deadline = timeout ? base::Deadline::After(*timeout) : base::Deadline::Never();
    while (true) {
      if (auto event = Take()) return *std::move(event);
      TRY(WaitForArrival(stop_fd, deadline));
    }
  }

 private:
  // The oldest event; an error stays, so that every later wait fails too.
  std::optional<base::Result<Event>> Take() {
    const std::lock_guard guard(shared_->mutex);
    shared_->arrived.Silence();
    if (shared_->queue.empty()) return std::nullopt;
    auto event = shared_->queue.front();
    if (event) shared_->queue.pop_front();
    return event;
  }

  [[nodiscard]] base::Status WaitForArrival(int stop_fd, base::Deadline deadline) const {
    pollfd fds[2] = {{shared_->arrived.fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
    const int ready = ::poll(fds, stop_fd >= 0 ? 2 : 1, deadline.poll_milliseconds());
    if (ready < 0 && errno != EINTR) return base::Fail(base::FromErrno(errno, "wait for events"));
    if (stop_fd >= 0 && fds[1].revents != 0) {
      return base::Fail({base::Code::kCancelled, "Stopped", "told to stop"});
    }
    if (ready == 0) {
      return base::Fail({base::Code::kTimeout, "Timeout", "no GPU event came in time"});
    }
    return {};
  }

  std::shared_ptr<Shared> shared_;
  std::jthread thread_;  // from the first wait on
};

}  // namespace

base::Result<std::unique_ptr<EventSet>> LoadedLibrary::CreateEventSet() {
  if (symbols_.nvmlEventSetWait_v2 == nullptr) {
    return base::Fail(MissingFunction("nvmlEventSetWait_v2"));
  }
  TRY_ASSIGN(auto arrived, base::Bell::Create());
  auto shared = std::make_shared<Shared>(shared_from_this(), std::move(arrived));
  TRY(NVML_CALL(symbols_, nvmlEventSetCreate, "make an event set", &shared->set));
  return std::make_unique<NvmlEventSet>(std::move(shared));
}

}  // namespace pitcrew::nvml
