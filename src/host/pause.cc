#include "host/pause.h"

#include <poll.h>

#include "base/deadline.h"

namespace pitcrew::host {

base::Status PauseBeforeReadingAgain(std::chrono::milliseconds pause, int stop_fd) {
  pollfd stop{stop_fd, POLLIN, 0};
  ::poll(&stop, 1, base::Deadline::After(pause).poll_milliseconds());
  if (stop.revents == 0) return {};
  return base::Fail({base::Code::kCancelled, "Stopped", "told to stop"});
}

}  // namespace pitcrew::host
