#include "io/stop.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <vector>

namespace pitcrew::io {

struct StopToken::State {
  std::atomic<bool> stopped{false};
  base::FileDescriptor event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

namespace {

// What the signal handler touches: set once, before the handler is installed.
std::atomic<int> signal_event{-1};
std::atomic<std::atomic<bool>*> signal_flag{nullptr};

void HandleStopSignal(int signal_number) {
  const int saved = errno;
  if (auto* flag = signal_flag.load()) flag->store(true);
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(signal_event.load(), &one, sizeof one);
  // The second signal of this kind ends the process the ordinary way.
  ::signal(signal_number, SIG_DFL);
  errno = saved;
}

// poll(2) with a deadline, going on after signals. The number of ready entries.
int PollUntil(std::vector<pollfd>& entries,
              std::optional<std::chrono::steady_clock::time_point> deadline) {
  for (;;) {
    timespec left{};
    if (deadline) {
      const auto rest = std::max(std::chrono::nanoseconds(0),
                                 std::chrono::duration_cast<std::chrono::nanoseconds>(
                                     *deadline - std::chrono::steady_clock::now()));
      left.tv_sec = rest.count() / 1'000'000'000;
      left.tv_nsec = rest.count() % 1'000'000'000;
    }
    const int ready = ::ppoll(entries.data(), entries.size(), deadline ? &left : nullptr, nullptr);
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

}  // namespace

bool StopToken::stopped() const { return state_ != nullptr && state_->stopped.load(); }

int StopToken::fd() const { return state_ == nullptr ? -1 : state_->event.get(); }

bool StopToken::WaitFor(std::chrono::nanoseconds duration) const {
  std::vector<pollfd> entries{{fd(), POLLIN, 0}};
  PollUntil(entries, std::chrono::steady_clock::now() + duration);
  return stopped();
}

void StopToken::Wait() const {
  std::vector<pollfd> entries{{fd(), POLLIN, 0}};
  PollUntil(entries, std::nullopt);
}

StopSource::StopSource() { token_.state_ = std::make_shared<StopToken::State>(); }

void StopSource::Stop() const {
  token_.state_->stopped.store(true);
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(token_.state_->event.get(), &one, sizeof one);
}

base::Status StopSource::StopOnSignals(std::initializer_list<int> signals) {
  // The handler keeps this state alive for the rest of the process.
  static std::shared_ptr<StopToken::State> kept_alive;
  kept_alive = token_.state_;
  signal_event.store(kept_alive->event.get());
  signal_flag.store(&kept_alive->stopped);
  for (const int signal_number : signals) {
    struct sigaction action{};
    action.sa_handler = HandleStopSignal;
    action.sa_flags = SA_RESTART;
    if (::sigaction(signal_number, &action, nullptr) != 0) {
      return base::Fail(base::FromErrno(errno, "install a signal handler"));
    }
  }
  return {};
}

base::Result<SignalReceiver> SignalReceiver::Create(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal_number : signals) ::sigaddset(&set, signal_number);
  if (const int problem = ::pthread_sigmask(SIG_BLOCK, &set, nullptr); problem != 0) {
    return base::Fail(base::FromErrno(problem, "block signals"));
  }
  base::FileDescriptor fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return base::Fail(base::FromErrno(errno, "make a signalfd"));
  return SignalReceiver(std::move(fd));
}

std::optional<int> SignalReceiver::Take() const {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

base::Result<std::size_t> WaitReadable(
    std::initializer_list<int> fds, const StopToken& stop,
    std::optional<std::chrono::steady_clock::time_point> deadline) {
  std::vector<pollfd> entries;
  entries.reserve(fds.size() + 1);
  for (const int fd : fds) entries.push_back({fd, POLLIN, 0});
  entries.push_back({stop.fd(), POLLIN, 0});
  const int ready = PollUntil(entries, deadline);
  if (ready < 0) return base::Fail(base::FromErrno(errno, "poll"));
  if (stop.stopped())
    return base::Fail({base::Code::kCancelled, "Stopped", "stopped while waiting"});
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (entries[i].revents != 0) return i;
  }
  return base::Fail(
      {base::Code::kTimeout, "DeadlinePassed", "nothing happened before the deadline"});
}

}  // namespace pitcrew::io
