// The kernel's announcements of devices and modules that come and go (netlink, group 1). They reach
// every network namespace that belongs to the first user namespace, so a pod hears them too.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::host {

struct Uevent {
  std::string action;       // "add", "remove", "bind", "change", ...
  std::string device_path;  // below /sys
  std::map<std::string, std::string> fields;

  // "pci", "module", ...; "" when the kernel does not say.
  [[nodiscard]] std::string subsystem() const;
};

// Whether a GPU, or another PCI device, or NVIDIA's kernel module came or went.
bool TellsOfGpus(const Uevent& event);

// Nothing for a message that the kernel did not write in its own form.
std::optional<Uevent> ParseUevent(std::string_view message);

class UeventReceiver {
 public:
  // kUnsupported or kDenied where the kernel does not let this process listen.
  static base::Result<UeventReceiver> Create();
  // Readable when an event waits. Borrowed.
  [[nodiscard]] int fd() const { return fd_.get(); }

  struct Batch {
    std::vector<Uevent> events;
    bool lost = false;  // the kernel dropped some: look at everything again
  };
  // The events that wait now; empty when there are none.
  base::Result<Batch> Take();

 private:
  explicit UeventReceiver(base::FileDescriptor fd) : fd_(std::move(fd)) {}
  base::FileDescriptor fd_;
};

}  // namespace pitcrew::host
