#include "kube/controller.h"

#include <fmt/format.h>

#include <exception>
#include <thread>

#include "base/log.h"

namespace pitcrew::kube {

Controller::Controller(ControllerOptions options, Reconcile reconcile)
    : options_(std::move(options)),
      reconcile_(std::move(reconcile)),
      queue_(std::make_shared<WorkQueue>(options_.backoff)) {}

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
  base::LogInfo("controller works", {{"controller", options_.name}});
  std::vector<std::thread> workers;
  for (int i = 0; i < options_.workers; ++i) {
    workers.emplace_back([this, &stop] { Work(stop); });
  }
  stop.Wait();
  queue_->ShutDown();
  for (std::thread& worker : workers) worker.join();
  return {};
}

void Controller::Work(const io::StopToken& stop) {
  while (const auto key = queue_->Take()) {
    ReconcileOne(*key, stop);
    queue_->Done(*key);
  }
}

void Controller::ReconcileOne(const ObjectKey& key, const io::StopToken& stop) {
  const auto count = [&](std::uint64_t Counts::* member) {
    const std::scoped_lock lock(counts_mutex_);
    ++(counts_.*member);
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
    if (action->requeue_after) queue_->AddAfter(key, *action->requeue_after);
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
  return counts_;
}

}  // namespace pitcrew::kube
