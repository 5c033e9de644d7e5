// The fleet behind the page, kept up to date: from watches or from a file.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "codec/json.h"
#include "dashboard/feed.h"
#include "dashboard/node_detail.h"
#include "fleet/cluster.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::dashboard {

// Thread-safe.
class FleetSource {
 public:
  // `client` null: a file.
  FleetSource(std::shared_ptr<kube::Client> client, Feed& feed, DetailSettings settings)
      : client_(std::move(client)), feed_(feed), settings_(settings) {}

  // The cluster as it is now: into the feed, and for Detail.
  void Show(fleet::Cluster cluster);
  // Follows the cluster until the stop (kCancelled); `first` as doctor::Follow wants it.
  base::Status Follow(fleet::Cluster first, const io::StopToken& stop);
  // kUnavailable before the first Show.
  base::Result<codec::Json> Detail(const std::string& node, const io::StopToken& stop) const;

 private:
  const std::shared_ptr<kube::Client> client_;
  Feed& feed_;
  const DetailSettings settings_;
  mutable std::mutex mutex_;
  std::shared_ptr<const fleet::Cluster> now_;
};

}  // namespace pitcrew::dashboard
