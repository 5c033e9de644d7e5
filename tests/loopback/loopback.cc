#include "loopback/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace pitcrew::testing {

namespace {

base::Result<LoopbackSocket> BindToLoopback(bool shared) {
  base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = shared ? 1 : 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket.valid() ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0 ||
      ::bind(socket.get(), generic, length) != 0 ||
      ::getsockname(socket.get(), generic, &length) != 0) {
    return base::Fail(base::FromErrno(errno, "bind to the loopback interface"));
  }
  return LoopbackSocket{.socket = std::move(socket), .port = ntohs(address.sin_port)};
}

}  // namespace

base::Result<LoopbackSocket> ListenOnLoopback() {
  TRY_ASSIGN(LoopbackSocket bound, BindToLoopback(false));
  if (::listen(bound.socket.get(), 64) != 0) {
    return base::Fail(base::FromErrno(errno, "listen on the loopback interface"));
  }
  return bound;
}

base::Result<LoopbackSocket> ReserveOnLoopback() { return BindToLoopback(true); }

}  // namespace pitcrew::testing
