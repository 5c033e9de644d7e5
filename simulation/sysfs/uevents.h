// Announces what happens to devices as the kernel announces it. The kernel itself broadcasts what
// the owner of a network namespace hands it (Linux 4.18: lib/kobject_uevent.c, uevent_net_rcv_skb),
// so receivers cannot tell. Only the sender's own network namespace hears it, where the kernel's
// own announcements reach all of them.
#pragma once

#include "base/file_descriptor.h"
#include "simulation/sysfs/machine.h"

namespace pitcrew::simulation::sysfs {

class UeventSender {
 public:
  // Not `enabled`, or without the right to it: sends nothing.
  explicit UeventSender(bool enabled);
  // Whether it was sent. Nobody may be listening, and a namespace may forbid it.
  bool Send(const Event& event) const;

 private:
  base::FileDescriptor socket_;
};

}  // namespace pitcrew::simulation::sysfs
