// A daemon on a thread of its own, for tests: told to stop, and waited for, at the end of the test.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>
#include <utility>

#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::test_support {

class DaemonThread {
 public:
  // Runs `daemon` until its token stops, or it ends by itself.
  explicit DaemonThread(std::function<base::Status(const io::StopToken&)> daemon)
      : thread_([this, daemon = std::move(daemon)] { status_ = daemon(stop_.token()); }) {}
  ~DaemonThread() { Stop(); }
  DaemonThread(const DaemonThread&) = delete;
  DaemonThread& operator=(const DaemonThread&) = delete;

  // Sends the signal to the daemon's thread, which has a receiver for it by now (io/stop.h).
  void Signal(int number) { ::pthread_kill(thread_.native_handle(), number); }
  // What it ended with.
  base::Status Stop() {
    stop_.Stop();
    return Wait();
  }
  // For one that is expected to end by itself.
  base::Status Wait() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  const io::StopSource stop_;
  base::Status status_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace pitcrew::test_support
