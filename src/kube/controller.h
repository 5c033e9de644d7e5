// Runs a reconcile function for keys that sources put into a queue. Level-triggered: the function
// learns the key, never the reason.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bell.h"
#include "base/result.h"
#include "io/stop.h"
#include "kube/informer.h"
#include "kube/resource.h"
#include "kube/work_queue.h"

namespace pitcrew::kube {

// What to do with a key after a reconcile without an error.
struct Action {
  std::optional<std::chrono::nanoseconds> requeue_after{};

  // Wait for the next change.
  static Action Done() { return {}; }
  // Once more after this time, or earlier when something changes.
  static Action RequeueAfter(std::chrono::nanoseconds delay) { return {.requeue_after = delay}; }
};

struct ControllerOptions {
  std::string name{};  // in log lines
  // At most. Two of them stay; the others come when a key is ready and all are busy, and go when
  // none is, so that a rush costs memory only while it lasts.
  int workers = 1;
  BackoffPolicy backoff{};  // after errors, per key: 100 ms doubling to 3 s
  // How long the sources may take to list everything first.
  std::chrono::milliseconds sync_timeout = std::chrono::minutes(2);
  // Called once, when all sources have listed everything and the work begins.
  std::function<void()> synced{};
};

// What a controller has done so far.
struct ControllerStatistics {
  struct Counts {
    std::uint64_t succeeded = 0;
    std::uint64_t requeued = 0;  // of those that succeeded: once more after a time
    std::uint64_t failed = 0;
    std::uint64_t threw = 0;
  };
  std::string name{};
  int workers = 0;
  int active = 0;  // workers with a key now
  Counts counts{};
  // Durations of reconciles: upper bounds in seconds, how many fell into each bucket (one more than
  // bounds, for those above the last), and their sum.
  std::vector<double> bounds{};
  std::vector<std::uint64_t> durations{};
  double seconds = 0;
  WorkQueue::Counts queue{};
};

class Controller {
 public:
  // An Error (or an exception, which is caught and logged) means: again, after a back-off. The
  // token stops when the controller has to end.
  using Reconcile = std::function<base::Result<Action>(const ObjectKey&, const io::StopToken&)>;
  using EnqueueFunction = std::function<void(const ObjectKey&)>;

  Controller(ControllerOptions options, Reconcile reconcile);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // Every change of an object enqueues its key. The source must outlive Run and must not have been
  // started yet; it may also outlive the controller.
  template <class View>
  void Watch(Informer<View>& informer) {
    Watch<View>(informer, [](const Change<View>& change, const EnqueueFunction& enqueue) {
      enqueue(change.key);
    });
  }
  // `map` calls its second argument for every key that a change concerns: none, one or many.
  template <class View>
  void Watch(Informer<View>& informer,
             std::function<void(const Change<View>&, const EnqueueFunction&)> map) {
    informer.AddHandler([queue = queue_, map = std::move(map)](const Change<View>& change) {
      const Priority priority = change.initial ? Priority::kLow : Priority::kNormal;
      map(change, [&](const ObjectKey& key) { queue->Add(key, priority); });
    });
    sources_.push_back(&informer);
  }

  void Enqueue(const ObjectKey& key) { queue_->Add(key); }
  void EnqueueAfter(const ObjectKey& key, std::chrono::nanoseconds delay) {
    queue_->AddAfter(key, delay);
  }

  // Starts the sources, waits until all are synced, works until the stop, then waits for the
  // reconciles under way. kTimeout when a source did not sync in time. Once only.
  base::Status Run(const io::StopToken& stop);

  using Counts = ControllerStatistics::Counts;
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] ControllerStatistics statistics() const;
  [[nodiscard]] const WorkQueue& queue() const { return *queue_; }

 private:
  void Work(const io::StopToken& stop);
  void WorkOn(const ObjectKey& key, const io::StopToken& stop);
  // Until the stop: one more worker for each key that finds all of them busy.
  void CallHelpers(const base::Bell& wanted, const io::StopToken& stop);
  void StartHelper(ObjectKey key, const io::StopToken& stop);
  void ReconcileOne(const ObjectKey& key, const io::StopToken& stop);
  void NoteDuration(std::chrono::duration<double> duration);

  ControllerOptions options_;
  Reconcile reconcile_;
  std::shared_ptr<WorkQueue> queue_;
  std::vector<Source*> sources_;
  struct Helper {
    std::thread thread{};
    std::atomic<bool> ended = false;
  };
  std::list<Helper> helpers_;  // Run's alone
  mutable std::mutex counts_mutex_;
  ControllerStatistics statistics_;
};

}  // namespace pitcrew::kube
