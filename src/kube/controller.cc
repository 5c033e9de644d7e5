#include "kube/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "base/log.h"

namespace pitcrew::kube {
namespace {

constexpr int kStandingWorkers = 2;

// controller-runtime's, in seconds.
constexpr double kDurationBounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3,  0.35,
                                      0.4,   0.45, 0.5,   0.6,  0.7, 0.8,  0.9, 1,    1.25, 1.5,
                                      1.75,  2,    2.5,   3,    3.5, 4,    4.5, 5,    6,    7,
                                      8,     9,    10,    15,   20,  25,   30,  40,   50,   60};

}  // namespace

Controller::Controller(ControllerOptions options, Reconcile reconcile)
    : options_(std::move(options)),
      reconcile_(std::move(reconcile)),
      queue_(std::make_shared<WorkQueue>(options_.backoff)) {
  statistics_.name = options_.name;
  statistics_.workers = options_.workers;
  statistics_.bounds.assign(std::begin(kDurationBounds), std::end(kDurationBounds));
  statistics_.durations.assign(std::size(kDurationBounds) + 1, 0);
}

Controller::~Controller() { queue_->ShutDown(); }

base::Status Controller::Run(const io::StopToken& stop) {
  for (Source* source : sources_) source->Start();
  const auto deadline = std::chrono::steady_clock::now() + options_.sync_timeout;
  for (const Source* source : sources_) {
    auto synced = source->WaitUntilSynced(stop, deadline);
    if (synced) continue;
    if (synced.error().code == base::Code::kCancelled) return {};
    return base::Fail(synced.error().Within(fmt::format("controller {}", options_.name)));
  }
  TRY_ASSIGN(const base::Bell wanted, base::Bell::Create());
  base::LogInfo("controller works", {{"controller", options_.name}});
  if (options_.synced) options_.synced();
  std::vector<std::thread> workers;
  for (int i = 0; i < std::min(options_.workers, kStandingWorkers); ++i) {
    workers.emplace_back([this, &stop] { Work(stop); });
  }
  CallHelpers(wanted, stop);
  stop.Wait();
  queue_->ShutDown();  // rings no more
  for (std::thread& worker : workers) worker.join();
  for (Helper& helper : helpers_) helper.thread.join();
  helpers_.clear();
  return {};
}

void Controller::Work(const io::StopToken& stop) {
  while (const auto key = queue_->Take()) WorkOn(*key, stop);
}

// Not by the workers: all of them may be in calls that take long when the next key comes.
void Controller::CallHelpers(const base::Bell& wanted, const io::StopToken& stop) {
  if (options_.workers <= kStandingWorkers) return;
  queue_->CallHelpers(options_.workers - kStandingWorkers, [&wanted] { wanted.Ring(); });
  for (;;) {
    wanted.Silence();
    while (auto key = queue_->TakeAsHelper()) StartHelper(*std::move(key), stop);
    const auto rung = io::WaitReadable({wanted.fd()}, stop, queue_->NextForHelper());
    if (rung || rung.error().code == base::Code::kTimeout) continue;
    if (!stop.stopped()) base::LogError("no further workers are called", rung.error());
    return;
  }
}

void Controller::StartHelper(ObjectKey key, const io::StopToken& stop) {
  helpers_.remove_if([](Helper& helper) {
    if (helper.ended) helper.thread.join();
    return helper.ended.load();
  });
  Helper& helper = helpers_.emplace_back();
  helper.thread = std::thread([this, &helper, &stop, key = std::move(key)] {
    for (std::optional<ObjectKey> next = key; next; next = queue_->TakeOrLeave()) {
      WorkOn(*next, stop);
    }
    helper.ended = true;
  });
}

void Controller::WorkOn(const ObjectKey& key, const io::StopToken& stop) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const std::scoped_lock lock(counts_mutex_);
    ++statistics_.active;
  }
  ReconcileOne(key, stop);
  NoteDuration(std::chrono::steady_clock::now() - begin);
  queue_->Done(key);
}

void Controller::NoteDuration(std::chrono::duration<double> duration) {
  const std::scoped_lock lock(counts_mutex_);
  --statistics_.active;
  const auto bucket = std::ranges::lower_bound(statistics_.bounds, duration.count());
  ++statistics_.durations[static_cast<std::size_t>(bucket - statistics_.bounds.begin())];
  statistics_.seconds += duration.count();
}

void Controller::ReconcileOne(const ObjectKey& key, const io::StopToken& stop) {
  const auto count = [&](std::uint64_t Counts::* member) {
    const std::scoped_lock lock(counts_mutex_);
    ++(statistics_.counts.*member);
  };
  const auto again = [&](const base::Error& error) {
    if (stop.stopped()) return;
    base::LogWarning("reconcile failed; it is tried again", error,
                     {{"controller", options_.name}, {"key", key.ToString()}});
    queue_->AddRateLimited(key);
  };
  try {
    const auto action = reconcile_(key, stop);
    if (!action) {
      count(&Counts::failed);
      again(action.error());
      return;
    }
    count(&Counts::succeeded);
    queue_->Forget(key);
    if (action->requeue_after) {
      count(&Counts::requeued);
      queue_->AddAfter(key, *action->requeue_after);
    }
  } catch (const std::exception& problem) {
    count(&Counts::threw);
    again(base::Internal("UncaughtException", problem.what()));
  } catch (...) {
    count(&Counts::threw);
    again(base::Internal("UncaughtException", "an exception of unknown type"));
  }
}

Controller::Counts Controller::counts() const {
  const std::scoped_lock lock(counts_mutex_);
  return statistics_.counts;
}

ControllerStatistics Controller::statistics() const {
  const auto queue = queue_->counts();
  const std::scoped_lock lock(counts_mutex_);
  ControllerStatistics statistics = statistics_;
  statistics.queue = queue;
  return statistics;
}

}  // namespace pitcrew::kube
