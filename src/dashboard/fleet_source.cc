#include "dashboard/fleet_source.h"

#include <utility>

#include "dashboard/picture.h"
#include "doctor/follow.h"
#include "fleet/report.h"

namespace pitcrew::dashboard {

void FleetSource::Show(fleet::Cluster cluster) {
  const auto now = std::make_shared<const fleet::Cluster>(std::move(cluster));
  feed_.Publish(PictureOf(*now, fleet::MakeReport(*now)));
  const std::scoped_lock lock(mutex_);
  now_ = now;
}

base::Status FleetSource::Follow(fleet::Cluster first, const io::StopToken& stop) {
  return doctor::Follow(
      client_, std::move(first), [this](fleet::Cluster cluster) { Show(std::move(cluster)); },
      stop);
}

base::Result<codec::Json> FleetSource::Detail(const std::string& node,
                                              const io::StopToken& stop) const {
  std::shared_ptr<const fleet::Cluster> now;
  {
    const std::scoped_lock lock(mutex_);
    now = now_;
  }
  if (now == nullptr) {
    return base::Fail(base::Unavailable("NotReadYet", "the cluster has not been read yet"));
  }
  return DetailOf(std::move(now), node, client_.get(), settings_, stop);
}

}  // namespace pitcrew::dashboard
