// Calls that may never return, each on a thread that can be left behind; private to this room.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/result.h"

namespace pitcrew::nvml {

// kTimeout "NvmlHangs".
[[nodiscard]] base::Error HangError(std::string_view what);
// Counts threads that are left behind in a library, for HasHangingCalls.
void AddHangingCalls(int change);

// One call at a time for each key (a GPU): another one waits for it, but not for one that has been
// given up. Thread-safe.
class PatientCalls {
  struct Shared;

 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `keep` lives as long as any of the calls, and for ever once one of them has hung.
  explicit PatientCalls(std::shared_ptr<void> keep);

  // A call that was started. It has to be waited for, once.
  template <class T>
  class Pending {
   public:
    // The call's answer, or kTimeout "NvmlHangs" at `until`.
    base::Result<T> Wait(TimePoint until) {
      State& state = *state_;
      std::unique_lock lock(state.mutex);
      if (state.ended.wait_until(lock, until, [&] { return state.answer.has_value(); })) {
        lock.unlock();
        // The library must not be unloaded by a thread that nobody waits for.
        if (state.thread.joinable()) state.thread.join();
        return *std::move(state.answer);
      }
      state.abandoned = true;
      GiveUp(*state.shared, state.key);
      state.thread.detach();
      return base::Fail(HangError(state.what));
    }

   private:
    friend class PatientCalls;
    struct State {
      std::shared_ptr<Shared> shared;
      std::string key;
      std::string what;
      std::thread thread;
      std::mutex mutex;
      std::condition_variable ended;
      std::optional<base::Result<T>> answer;  // guarded by mutex
      bool abandoned = false;                 // guarded by mutex
    };
    explicit Pending(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  // `what` names it in the error: "read GPU 3". `call` has to own what it uses.
  template <class T>
  Pending<T> Start(const std::string& key, std::string what, std::function<base::Result<T>()> call,
                   TimePoint until) {
    using State = typename Pending<T>::State;
    auto state = std::make_shared<State>();
    state->shared = shared_;
    state->key = key;
    state->what = std::move(what);
    if (!Take(*shared_, key, until)) {
      state->answer = base::Fail(HangError(state->what));
      return Pending<T>(std::move(state));
    }
    state->thread = std::thread([state, call = std::move(call)] {
      auto answer = call();
      Release(*state->shared, state->key);
      const std::lock_guard lock(state->mutex);
      state->answer = std::move(answer);
      state->ended.notify_all();
      if (state->abandoned) AddHangingCalls(-1);
    });
    return Pending<T>(std::move(state));
  }

  template <class T>
  base::Result<T> Run(const std::string& key, std::string what,
                      std::function<base::Result<T>()> call, TimePoint until) {
    return Start<T>(key, std::move(what), std::move(call), until).Wait(until);
  }

 private:
  struct Shared {
    std::shared_ptr<void> keep;
    std::mutex mutex;
    std::condition_variable released;
    std::map<std::string, bool> calls;  // in progress; true: given up
    bool kept_for_ever = false;
  };
  // False when a call of that key has been given up, or is in progress until then.
  static bool Take(Shared& shared, const std::string& key, TimePoint until);
  static void Release(Shared& shared, const std::string& key);
  static void GiveUp(Shared& shared, const std::string& key);

  std::shared_ptr<Shared> shared_;
};

}  // namespace pitcrew::nvml
