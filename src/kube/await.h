// Waiting for a state of the cluster by watching it, never by asking again and again.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/stop.h"
#include "kube/informer.h"

namespace pitcrew::kube {

// Follows the objects that `options` select until `done` says so: it is asked once everything has
// been listed and after every change, on the calling thread. kTimeout at the deadline, with the
// trouble of the watch in the message if there is any; kCancelled on stop; an error of `done` ends
// the wait.
template <class View>
base::Status Await(std::shared_ptr<Client> client, const ResourceKind& kind,
                   Projection<View> projection, InformerOptions options,
                   const std::function<base::Result<bool>(const Store<View>&)>& done,
                   const io::StopToken& stop,
                   std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt) {
  // Shared with the informer's thread.
  const auto changed =
      std::make_shared<base::FileDescriptor>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!changed->valid()) return base::Fail(base::FromErrno(errno, "make an eventfd"));
  Informer<View> informer(std::move(client), kind, std::move(projection), std::move(options));
  informer.AddHandler([changed](const Change<View>&) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(changed->get(), &one, sizeof one);
  });
  informer.Start();
  TRY(informer.WaitUntilSynced(stop, deadline));
  while (true) {
    TRY_ASSIGN(const bool finished, done(informer.store()));
    if (finished) return {};
    const auto woken = io::WaitReadable({changed->get()}, stop, deadline);
    if (!woken) {
      const auto trouble = informer.status().trouble;
      if (woken.error().code == base::Code::kTimeout && trouble) {
        return base::Fail(woken.error().Within(trouble->message));
      }
      return base::Fail(woken.error());
    }
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(changed->get(), &count, sizeof count);
  }
}

// Waits until none of the objects that `options` select has one of these uids.
base::Status AwaitGone(std::shared_ptr<Client> client, const ResourceKind& kind,
                       const std::set<std::string>& uids, InformerOptions options,
                       const io::StopToken& stop,
                       std::optional<std::chrono::steady_clock::time_point> deadline);

}  // namespace pitcrew::kube
