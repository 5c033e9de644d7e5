// One kind of objects as a watch keeps it, on its way into a fleet::Cluster.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "base/bell.h"
#include "fleet/cluster.h"
#include "kube/informer.h"
#include "kube/projection.h"

namespace pitcrew::doctor {

// Most changes of nodes are heartbeats and lists of images, which are not in a view.
template <class View>
bool IsSeen(const kube::Change<View>& change) {
  if constexpr (std::equality_comparable<View>) {
    return change.before == nullptr || change.now == nullptr || *change.before != *change.now;
  }
  return true;
}

// That what is shown is old, or is not any more, is a change too; and so is a list without objects:
// then all is known.
inline kube::InformerOptions RingingToo(kube::InformerOptions options,
                                        const std::shared_ptr<base::Bell>& bell) {
  options.opened = [bell] { bell->Ring(); };
  options.interrupted = options.opened;
  return options;
}

class Watch {
 public:
  virtual ~Watch() = default;
  virtual void Start() = 0;
  virtual base::Status WaitUntilSynced(const io::StopToken& stop) = 0;
  [[nodiscard]] virtual bool synced() const = 0;
  // What is known may be old; then why is put into Cluster::unread.
  virtual void Put(fleet::Cluster& cluster) const = 0;
};

// Rings `bell` at every change that a view shows.
template <class View>
class WatchOf final : public Watch {
 public:
  using PutOne = void (*)(const View&, fleet::Cluster&);
  WatchOf(const std::shared_ptr<kube::Client>& client, const std::shared_ptr<base::Bell>& bell,
          fleet::Kind kind, const kube::ResourceKind& resource, View (*read)(const codec::Json&),
          PutOne put, kube::InformerOptions options)
      : kind_(kind),
        put_(put),
        informer_(client, resource,
                  kube::ProjectJson<View>([read](const codec::Json& object) -> base::Result<View> {
                    return read(object);
                  }),
                  RingingToo(std::move(options), bell)) {
    informer_.AddHandler([bell](const kube::Change<View>& change) {
      if (IsSeen(change)) bell->Ring();
    });
  }

  void Start() override { informer_.Start(); }
  base::Status WaitUntilSynced(const io::StopToken& stop) override {
    return informer_.WaitUntilSynced(stop);
  }
  [[nodiscard]] bool synced() const override { return informer_.status().synced; }
  void Put(fleet::Cluster& cluster) const override {
    for (const auto& [key, view] : informer_.store().Snapshot()) put_(*view, cluster);
    const auto trouble = informer_.status().trouble;
    if (trouble) cluster.unread.emplace(kind_, *trouble);
  }

 private:
  fleet::Kind kind_;
  PutOne put_;
  kube::Informer<View> informer_;
};

}  // namespace pitcrew::doctor
