// Waiting for a state of the cluster by watching it, never by asking again and again.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/bell.h"
#include "base/deadline.h"
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
                   const io::StopToken& stop, base::Deadline deadline = {}) {
  TRY_ASSIGN(auto made, base::Bell::Create());
  const auto changed = std::make_shared<base::Bell>(std::move(made));  // with the informer's thread
  Informer<View> informer(std::move(client), kind, std::move(projection), std::move(options));
  informer.AddHandler([changed](const Change<View>&) { changed->Ring(); });
  informer.Start();
  TRY(informer.WaitUntilSynced(stop, deadline));
  while (true) {
    TRY_ASSIGN(const bool finished, done(informer.store()));
    if (finished) return {};
    const auto woken = io::WaitReadable({changed->fd()}, stop, deadline);
    if (!woken) {
      const auto trouble = informer.status().trouble;
      if (woken.error().code == base::Code::kTimeout && trouble) {
        return base::Fail(woken.error().Within(trouble->message));
      }
      return base::Fail(woken.error());
    }
    changed->Silence();
  }
}

// Waits until none of the objects that `options` select has one of these uids.
base::Status AwaitGone(std::shared_ptr<Client> client, const ResourceKind& kind,
                       const std::set<std::string>& uids, InformerOptions options,
                       const io::StopToken& stop, base::Deadline deadline);

}  // namespace pitcrew::kube
