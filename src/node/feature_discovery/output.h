// Where labels go (feature-discovery.md section 7).
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/feature_discovery/labels.h"
#include "node/feature_discovery/settings.h"

namespace pitcrew::node::feature_discovery {

class Output {
 public:
  virtual ~Output() = default;
  // Makes the labels known; writes only what differs from what stands there. kCancelled on stop.
  virtual base::Status Publish(const Labels& labels, const io::StopToken& stop) = 0;
  // The daemon ends or reloads.
  virtual void Withdraw() {}
};

// One line per label, "key=value", in a file that is replaced as a whole. An empty path is standard
// output. Withdraw removes the file.
std::unique_ptr<Output> FileOutput(std::filesystem::path file);

// A NodeFeature object, which node feature discovery's master turns into labels of the Node.
// It is owned by the DaemonSet and the pod of this process, so that it goes with them.
std::unique_ptr<Output> NodeFeatureOutput(std::shared_ptr<kube::Client> client,
                                          const Options& options);

// "key=value\n" for each label, in order.
std::string ToLines(const Labels& labels);

// The whole NodeFeature object.
codec::Json MakeNodeFeature(const std::string& node, const std::string& namespace_name,
                            const codec::Json& owner_references, const Labels& labels);

// The references for the owner of `pod`, and for the pod itself; empty when no DaemonSet owns it.
codec::Json OwnersOf(const codec::Json& pod);

}  // namespace pitcrew::node::feature_discovery
