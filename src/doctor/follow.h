// `pitcrew status --watch`: the cluster as watches keep it up to date.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "fleet/cluster.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::doctor {

// Calls `show` with the cluster as it is now and again after every change (changes that come
// together are shown together), until the stop. That watches are interrupted, so that what is shown
// is old, is a change too: Cluster::unread tells it. `first` was read before (Extent::kFirst is
// enough): kinds that could not be read then are followed once they can, within minutes.
base::Status Follow(const std::shared_ptr<kube::Client>& client, fleet::Cluster first,
                    const std::function<void(fleet::Cluster)>& show, const io::StopToken& stop);

}  // namespace pitcrew::doctor
