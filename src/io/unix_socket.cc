#include "io/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>

namespace pitcrew::io {

base::Result<base::FileDescriptor> ConnectUnix(const std::filesystem::path& path) {
  const auto fail = [&](int error_number) {
    return base::Fail(base::FromErrno(error_number, "connect to " + path.string()));
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = path.native();
  if (name.size() >= sizeof(address.sun_path)) return fail(ENAMETOOLONG);
  name.copy(address.sun_path, name.size());
  base::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return fail(errno);
  // It says EAGAIN when the listener's queue is full.
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail(errno);
  }
  return socket;
}

}  // namespace pitcrew::io
