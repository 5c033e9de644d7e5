// Pods by the node that they are bound to, or for, kept up to date by their watch.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "kube/store.h"

namespace pitcrew::gpu_operator {

// `member` of a View is the name of the node, "" for none. Thread-safe.
template <class View, std::string View::* member>
class ByNode {
 public:
  using ViewPointer = std::shared_ptr<const View>;

  void Apply(const kube::Change<View>& change) {
    const std::lock_guard lock(mutex_);
    if (change.before != nullptr) {
      if (const auto found = nodes_.find((*change.before).*member); found != nodes_.end()) {
        found->second.erase(change.key);
        if (found->second.empty()) nodes_.erase(found);
      }
    }
    if (change.now != nullptr && !((*change.now).*member).empty()) {
      nodes_[(*change.now).*member][change.key] = change.now;
    }
  }
  [[nodiscard]] std::vector<ViewPointer> Of(const std::string& node) const {
    const std::lock_guard lock(mutex_);
    std::vector<ViewPointer> pods;
    if (const auto found = nodes_.find(node); found != nodes_.end()) {
      for (const auto& [key, pod] : found->second) pods.push_back(pod);
    }
    return pods;
  }
  // Nodes with such a pod, sorted.
  [[nodiscard]] std::vector<std::string> Nodes() const {
    std::vector<std::string> names;
    {
      const std::lock_guard lock(mutex_);
      names.reserve(nodes_.size());
      for (const auto& [name, pods] : nodes_) names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::map<kube::ObjectKey, ViewPointer>> nodes_;
};

}  // namespace pitcrew::gpu_operator
