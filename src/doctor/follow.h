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
// together are shown together), until the stop. `first` was read before (Extent::kFirst is enough):
// kinds that could not be read then are not followed.
base::Status Follow(const std::shared_ptr<kube::Client>& client, const fleet::Cluster& first,
                    const std::function<void(const fleet::Cluster&)>& show,
                    const io::StopToken& stop);

}  // namespace pitcrew::doctor
