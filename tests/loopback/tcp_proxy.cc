#include "loopback/tcp_proxy.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "loopback/loopback.h"

namespace pitcrew::testing {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// Closing resets the connection instead of ending it in good order.
void ResetOnClose(int socket) {
  const linger hard{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

bool SendAll(int socket, const char* data, std::size_t length) {
  while (length > 0) {
    const ssize_t sent = ::send(socket, data, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    length -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

base::Result<std::unique_ptr<TcpProxy>> TcpProxy::Start(int target_port) {
  TRY_ASSIGN(LoopbackSocket listener, ListenOnLoopback());
  return std::unique_ptr<TcpProxy>(
      new TcpProxy(std::move(listener.socket), listener.port, target_port));
}

TcpProxy::TcpProxy(base::FileDescriptor listener, int port, int target_port)
    : listener_(std::move(listener)),
      port_(port),
      target_port_(target_port),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  for (const int fd : {listener_.get(), stop_.token().fd()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  stop_.Stop();
  thread_.join();
}

std::string TcpProxy::https_url() const { return fmt::format("https://127.0.0.1:{}", port_); }

void TcpProxy::Cut() {
  const std::scoped_lock lock(mutex_);
  // The relay thread sees the end and closes; shutdown is safe beside its reads.
  for (const auto& [fd, link] : links_) {
    ResetOnClose(fd);
    ::shutdown(fd, SHUT_RDWR);
  }
}

void TcpProxy::Forget() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [fd, link] : links_) link->forgotten = true;
}

void TcpProxy::SetOpen(bool open) {
  open_ = open;
  if (!open) Cut();
}

void TcpProxy::Accept() {
  base::FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client.valid()) return;
  base::FileDescriptor server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(target_port_);
  if (!open_ ||
      ::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ResetOnClose(client.get());
    return;
  }
  ++accepted_;
  auto link = std::make_shared<Link>();
  link->client = std::move(client);
  link->server = std::move(server);
  const std::scoped_lock lock(mutex_);
  for (const int fd : {link->client.get(), link->server.get()}) {
    links_[fd] = link;
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  if (!open_) {  // closed meanwhile
    for (const int fd : {link->client.get(), link->server.get()}) ::shutdown(fd, SHUT_RDWR);
  }
}

void TcpProxy::Relay(int fd) {
  std::shared_ptr<Link> link;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = links_.find(fd);
    if (found == links_.end()) return;
    link = found->second;
  }
  const int other = fd == link->client.get() ? link->server.get() : link->client.get();
  std::array<char, 65536> buffer;
  const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), 0);
  if (count > 0 && link->forgotten) return;
  if (count > 0 && SendAll(other, buffer.data(), static_cast<std::size_t>(count))) return;
  const std::scoped_lock lock(mutex_);
  links_.erase(fd);
  links_.erase(other);
}

void TcpProxy::Run() {
  while (!stop_.token().stopped()) {
    std::array<epoll_event, 16> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener_.get()) {
        Accept();
      } else if (fd != stop_.token().fd()) {
        Relay(fd);
      }
    }
  }
}

}  // namespace pitcrew::testing
