#include "io/stop.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bell.h"
#include "base/log.h"

namespace pitcrew::io {

struct StopToken::State {
  explicit State(const std::shared_ptr<State>& parent) {
    if (parent != nullptr) {
      // All of them at once and not the parent's epoll instance: the kernel bounds how deep those
      // nest.
      ancestors = parent->ancestors;
      ancestors.push_back(parent);
    }
    auto opened = Open();
    if (opened) return;
    failure = std::move(opened).error();
    base::LogError("a stop cannot be waited for; what depends on it ends", *failure);
    stopped_here = true;
  }

  base::Status Open();
  [[nodiscard]] bool stopped() const {
    return stopped_here || std::ranges::any_of(ancestors, [](const auto& ancestor) {
             return ancestor->stopped_here.load();
           });
  }
  [[nodiscard]] int fd() const {
    // No process can have this descriptor: poll tells at once that it is not open.
    if (failure) return INT_MAX;
    return any ? any->get() : bell->fd();
  }

  std::atomic<bool> stopped_here{false};
  std::optional<base::Bell> bell;
  std::vector<std::shared_ptr<State>> ancestors;
  std::optional<base::FileDescriptor> any;  // epoll over the own bell and those of the ancestors
  std::optional<base::Error> failure;
};

base::Status StopToken::State::Open() {
  for (const auto& ancestor : ancestors) {
    if (ancestor->failure) return base::Fail(*ancestor->failure);
  }
  TRY_ASSIGN(bell, base::Bell::Create());
  if (ancestors.empty()) return {};
  any.emplace(::epoll_create1(EPOLL_CLOEXEC));
  if (!any->valid()) return base::Fail(base::FromErrno(errno, "make an epoll instance"));
  const auto add = [&](int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    return ::epoll_ctl(any->get(), EPOLL_CTL_ADD, fd, &event) == 0;
  };
  bool added = add(bell->fd());
  for (const auto& ancestor : ancestors) added = added && add(ancestor->bell->fd());
  if (!added) return base::Fail(base::FromErrno(errno, "add to an epoll instance"));
  return {};
}

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

// ppoll(2) with a deadline, going on after signals. The number of ready entries.
int PollUntil(std::vector<pollfd>& entries, base::Deadline deadline) {
  for (;;) {
    timespec left{};
    if (!deadline.never()) {
      const auto rest =
          std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.left()).count();
      left.tv_sec = rest / 1'000'000'000;
      left.tv_nsec = rest % 1'000'000'000;
    }
    const int ready =
        ::ppoll(entries.data(), entries.size(), deadline.never() ? nullptr : &left, nullptr);
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

}  // namespace

bool StopToken::stopped() const { return state_ != nullptr && state_->stopped(); }

int StopToken::fd() const { return state_ == nullptr ? -1 : state_->fd(); }

base::Error StopToken::error() const {
  if (state_ != nullptr && state_->failure) return *state_->failure;
  return {base::Code::kCancelled, "Stopped", "stopped while waiting"};
}

bool StopToken::WaitFor(std::chrono::nanoseconds duration) const {
  std::vector<pollfd> entries{{fd(), POLLIN, 0}};
  PollUntil(entries, base::Deadline::After(duration));
  return stopped();
}

void StopToken::Wait() const {
  std::vector<pollfd> entries{{fd(), POLLIN, 0}};
  PollUntil(entries, base::Deadline::Never());
}

StopSource::StopSource(const StopToken& parent) {
  token_.state_ = std::make_shared<StopToken::State>(parent.state_);
}

void StopSource::Stop() const {
  token_.state_->stopped_here = true;
  if (token_.state_->bell) token_.state_->bell->Ring();
}

base::Status StopSource::StopOnSignals(std::initializer_list<int> signals) {
  // The handler keeps this state alive for the rest of the process.
  static std::shared_ptr<StopToken::State> kept_alive;
  if (token_.state_->failure) return base::Fail(*token_.state_->failure);
  kept_alive = token_.state_;
  signal_event.store(kept_alive->bell->fd());
  signal_flag.store(&kept_alive->stopped_here);
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

base::Result<std::size_t> WaitReadable(std::initializer_list<int> fds, const StopToken& stop,
                                       base::Deadline deadline) {
  std::vector<pollfd> entries;
  entries.reserve(fds.size() + 1);
  for (const int fd : fds) entries.push_back({fd, POLLIN, 0});
  entries.push_back({stop.fd(), POLLIN, 0});
  const int ready = PollUntil(entries, deadline);
  if (ready < 0) return base::Fail(base::FromErrno(errno, "poll"));
  if (stop.stopped()) return base::Fail(stop.error());
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (entries[i].revents != 0) return i;
  }
  return base::Fail(
      {base::Code::kTimeout, "DeadlinePassed", "nothing happened before the deadline"});
}

}  // namespace pitcrew::io
