#include "host/uevent.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/strings.h"

namespace pitcrew::host {
namespace {

constexpr unsigned kKernelGroup = 1;

}  // namespace

std::string Uevent::subsystem() const {
  const auto found = fields.find("SUBSYSTEM");
  return found == fields.end() ? "" : found->second;
}

bool TellsOfGpus(const Uevent& event) {
  if (event.subsystem() == "module") return event.device_path.ends_with("/nvidia");
  return event.subsystem() == "pci" && (event.action == "add" || event.action == "remove" ||
                                        event.action == "bind" || event.action == "unbind");
}

std::optional<Uevent> ParseUevent(std::string_view message) {
  // "action@devpath", then KEY=value, each ended by a zero byte.
  const auto parts = base::Split(message, '\0');
  const auto at = parts.front().find('@');
  if (at == std::string::npos) return std::nullopt;
  Uevent event{parts.front().substr(0, at), parts.front().substr(at + 1), {}};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto equals = parts[i].find('=');
    if (equals == std::string::npos) continue;
    event.fields[parts[i].substr(0, equals)] = parts[i].substr(equals + 1);
  }
  return event;
}

base::Result<UeventReceiver> UeventReceiver::Create() {
  base::FileDescriptor fd(
      ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT));
  if (!fd.valid()) return base::Fail(base::FromErrno(errno, "open a kernel event socket"));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kKernelGroup;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return base::Fail(base::FromErrno(errno, "listen to kernel events"));
  }
  return UeventReceiver(std::move(fd));
}

base::Result<UeventReceiver::Batch> UeventReceiver::Take() {
  Batch batch;
  std::array<char, 16384> buffer;
  while (true) {
    sockaddr_nl sender{};
    socklen_t length = sizeof sender;
    const ssize_t size = ::recvfrom(fd_.get(), buffer.data(), buffer.size(), 0,
                                    reinterpret_cast<sockaddr*>(&sender), &length);
    if (size < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return batch;
      if (errno == EINTR) continue;
      if (errno == ENOBUFS) {
        batch.lost = true;
        continue;
      }
      return base::Fail(base::FromErrno(errno, "read kernel events"));
    }
    if (sender.nl_pid != 0) continue;  // not from the kernel
    if (auto event = ParseUevent({buffer.data(), static_cast<std::size_t>(size)})) {
      batch.events.push_back(*std::move(event));
    }
  }
}

}  // namespace pitcrew::host
