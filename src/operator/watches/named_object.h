// One object, watched by its name: what a fact comes from that neither nodes nor policies tell.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/observed.h"
#include "io/stop.h"
#include "kube/informer.h"

namespace pitcrew::gpu_operator {

// The watch has a field selector, so that it costs nothing but this one object; a kind with secrets
// in it needs no right to see the others.
template <class View>
class NamedObject {
 public:
  // `changed` is called on the watch's thread after every change of the view but the first, and
  // must not block. The watch ends with this object.
  NamedObject(std::shared_ptr<kube::Client> client, const kube::ResourceKind& kind,
              kube::ObjectKey key, kube::Projection<View> projection,
              const std::function<void()>& changed)
      : key_(std::move(key)),
        informer_(std::move(client), kind, std::move(projection),
                  {.namespace_name = key_.namespace_name,
                   .field_selector = "metadata.name=" + key_.name}) {
    informer_.AddHandler([changed](const kube::Change<View>& change) {
      if (!change.initial) changed();
    });
    informer_.Start();
  }

  // Missing also where the cluster does not serve the kind; unknown with the trouble of the watch.
  // Right after the start this waits for the first list.
  [[nodiscard]] base::Observed<View> Get(const io::StopToken& stop) const {
    if (!informer_.store().synced() && !informer_.status().trouble) {
      const auto waited =
          informer_.WaitUntilSynced(stop, base::SteadyClock::now() + std::chrono::seconds(2));
      if (!waited && !informer_.status().trouble) {
        return base::Observed<View>::Unknown(waited.error());
      }
    }
    if (!informer_.store().synced()) {
      const auto trouble = informer_.status().trouble;
      if (trouble && trouble->reason != "ResourceNotServed") {
        return base::Observed<View>::Unknown(trouble->Within("watch " + key_.ToString()));
      }
      if (trouble) return base::Observed<View>::Missing();
    }
    const auto found = informer_.store().Find(key_);
    if (found.is_present()) return base::Observed<View>::Present(**found.value());
    return found.is_absent() ? base::Observed<View>::Missing()
                             : base::Observed<View>::Unknown(*found.error());
  }

  [[nodiscard]] const kube::ObjectKey& key() const { return key_; }

 private:
  kube::ObjectKey key_;
  kube::Informer<View> informer_;
};

}  // namespace pitcrew::gpu_operator
