#include "loopback/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace pitcrew::testing {

base::Result<LoopbackListener> ListenOnLoopback() {
  base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket.valid() || ::bind(socket.get(), generic, length) != 0 ||
      ::listen(socket.get(), 64) != 0 || ::getsockname(socket.get(), generic, &length) != 0) {
    return base::Fail(base::FromErrno(errno, "listen on the loopback interface"));
  }
  return LoopbackListener{.socket = std::move(socket), .port = ntohs(address.sin_port)};
}

}  // namespace pitcrew::testing
