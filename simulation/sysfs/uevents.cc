#include "simulation/sysfs/uevents.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

namespace pitcrew::simulation::sysfs {

UeventSender::UeventSender(bool enabled) {
  if (!enabled) return;
  socket_ =
      base::FileDescriptor(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT));
}

bool UeventSender::Send(const Event& event) const {
  if (!socket_.valid()) return false;
  std::string text = event.action + "@" + event.device_path;
  const auto add = [&text](const std::string& field) {
    text += '\0';
    text += field;
  };
  add("ACTION=" + event.action);
  add("DEVPATH=" + event.device_path);
  for (const auto& [name, value] : event.fields) add(name + "=" + value);
  text += '\0';
  nlmsghdr header{};
  header.nlmsg_len = static_cast<__u32>(NLMSG_LENGTH(text.size()));
  header.nlmsg_type = NLMSG_MIN_TYPE;  // anything that is not netlink's own
  header.nlmsg_flags = NLM_F_REQUEST;
  std::string message(NLMSG_LENGTH(text.size()), '\0');
  std::memcpy(message.data(), &header, sizeof(header));
  std::memcpy(message.data() + NLMSG_HDRLEN, text.data(), text.size());
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  return ::sendto(socket_.get(), message.data(), message.size(), 0,
                  reinterpret_cast<const sockaddr*>(&kernel),
                  sizeof(kernel)) == static_cast<ssize_t>(message.size());
}

}  // namespace pitcrew::simulation::sysfs
