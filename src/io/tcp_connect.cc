#include "io/tcp_connect.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "io/http_exchange.h"

namespace pitcrew::io {
namespace {

using base::FileDescriptor;

// How long one address has for itself before the next one is tried beside it.
constexpr std::chrono::milliseconds kHeadStart{300};
constexpr int kKeepAliveIdleSeconds = 15;
constexpr int kKeepAliveIntervalSeconds = 5;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

base::Result<Addresses> Resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) {
    return base::Fail(base::Unavailable(
        "NameNotResolved", fmt::format("cannot resolve {}: {}", host, ::gai_strerror(code))));
  }
  return Addresses(found, &freeaddrinfo);
}

void SetOptions(int socket) {
  const int on = 1;
  const unsigned int unacknowledged = std::chrono::milliseconds(kUnacknowledgedTimeout).count();
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepAliveIdleSeconds,
               sizeof kKeepAliveIdleSeconds);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepAliveIntervalSeconds,
               sizeof kKeepAliveIntervalSeconds);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof unacknowledged);
}

// The attempts that are under way.
class Race {
 public:
  // Begins with one more address; remembers why it failed when it does so at once.
  void Enter(const addrinfo& address) {
    FileDescriptor socket(::socket(address.ai_family,
                                   address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                                   address.ai_protocol));
    if (!socket.valid()) {
      last_error_ = errno;
      return;
    }
    SetOptions(socket.get());
    if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) {
      last_error_ = errno;
      return;
    }
    runners_.push_back(std::move(socket));
  }

  // Waits until `until`, a stop, or the end of some attempt; the winner, if there is one.
  FileDescriptor Wait(base::Deadline until, const StopToken& stop) {
    std::vector<pollfd> entries;
    entries.reserve(runners_.size() + 1);
    for (const auto& runner : runners_) {
      entries.push_back({.fd = runner.get(), .events = POLLOUT, .revents = 0});
    }
    entries.push_back({.fd = stop.fd(), .events = POLLIN, .revents = 0});
    ::poll(entries.data(), entries.size(), until.poll_milliseconds());
    FileDescriptor winner;
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      if (entries[i].revents == 0) continue;
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(runners_[i].get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error == 0 && !winner.valid()) {
        winner = std::move(runners_[i]);
      } else if (error != 0) {
        last_error_ = error;
        runners_[i].Close();
      }
    }
    std::erase_if(runners_, [](const FileDescriptor& runner) { return !runner.valid(); });
    return winner;
  }

  [[nodiscard]] bool empty() const { return runners_.empty(); }
  [[nodiscard]] int last_error() const { return last_error_; }

 private:
  std::vector<FileDescriptor> runners_;
  int last_error_ = ETIMEDOUT;
};

}  // namespace

base::Result<FileDescriptor> ConnectTcp(const std::string& host, const std::string& port,
                                        base::Deadline deadline, const StopToken& stop) {
  TRY_ASSIGN(const Addresses addresses, Resolve(host, port));
  const addrinfo* next = addresses.get();
  Race race;
  while (next != nullptr || !race.empty()) {
    if (stop.stopped()) return base::Fail(stop.error());
    if (deadline.passed()) break;
    if (next != nullptr) {
      race.Enter(*next);
      next = next->ai_next;
    }
    if (race.empty()) continue;
    auto winner = race.Wait(
        next == nullptr ? deadline : std::min(deadline, base::Deadline::After(kHeadStart)), stop);
    if (winner.valid()) return winner;
  }
  if (stop.stopped()) return base::Fail(stop.error());
  return base::Fail(
      base::Unavailable("ConnectionRefused", fmt::format("cannot connect to {} port {}: {}", host,
                                                         port, std::strerror(race.last_error()))));
}

}  // namespace pitcrew::io
