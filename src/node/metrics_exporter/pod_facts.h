// UIDs and labels of this node's pods, kept up to date by a watch (metrics-exporter.md 6.4, 6.6).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "node/metrics_exporter/pod_map.h"

namespace pitcrew::node::metrics_exporter {

// Which labels of pods become labels of series. Patterns match anywhere in the label's name, any of
// them is enough, and those that are wrong are left out with a warning; none left: all labels.
class LabelFilter {
 public:
  explicit LabelFilter(const std::vector<std::string>& patterns);
  ~LabelFilter();
  LabelFilter(LabelFilter&&) noexcept;
  LabelFilter& operator=(LabelFilter&&) = delete;

  [[nodiscard]] bool Allows(std::string_view label) const;
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct Patterns;
  std::unique_ptr<Patterns> patterns_;
  std::vector<std::string> warnings_;
};

// "app.kubernetes.io/name" as "app_kubernetes_io_name": what Prometheus takes, and none of the
// names that series have anyway, for which it is empty.
std::string LabelName(std::string_view pod_label);

// The labels of a pod that its series carry, by name.
Attributes SeriesLabels(const std::vector<std::pair<std::string, std::string>>& pod_labels,
                        const LabelFilter& filter);

struct PodFactsOptions {
  std::string node_name;  // empty: pods of all nodes
  bool labels = false;    // else only UIDs
  std::vector<std::string> label_patterns;
};

class PodWatch {
 public:
  static std::unique_ptr<PodWatch> Start(std::shared_ptr<kube::Client> client,
                                         const PodFactsOptions& options);
  [[nodiscard]] PodFactsByName Facts() const;

 private:
  PodWatch() = default;
  std::unique_ptr<kube::Informer<PodFacts>> informer_;
};

}  // namespace pitcrew::node::metrics_exporter
