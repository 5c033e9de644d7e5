// What an attacker's image holds in the place of a program that somebody may run for it. It calls
// home: an abstract socket is seen only by who is in the network namespace that it belongs to.
// Static, since an image need not hold a C library.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>

int main() {
  const int name = ::open("/home-of-the-attacker", O_RDONLY | O_CLOEXEC);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const ssize_t length = ::read(name, address.sun_path + 1, sizeof(address.sun_path) - 1);
  if (length <= 0) return 1;
  const int home = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                           static_cast<std::size_t>(length));
  return ::connect(home, reinterpret_cast<const sockaddr*>(&address), size) == 0 ? 0 : 1;
}
