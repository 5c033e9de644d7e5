#include "operator/upgrade/grants.h"

namespace pitcrew::gpu_operator {

void Grants::Give(const std::string& node) {
  const std::lock_guard lock(mutex_);
  nodes_[node] = std::nullopt;
}

bool Grants::Has(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  return found != nodes_.end() && !found->second;
}

void Grants::Use(const std::string& node, std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  if (const auto found = nodes_.find(node); found != nodes_.end()) found->second = version;
}

bool Grants::Return(const std::string& node) {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || found->second) return false;
  nodes_.erase(found);
  return true;
}

void Grants::Forget(const std::string& node) {
  const std::lock_guard lock(mutex_);
  nodes_.erase(node);
}

bool Grants::Counts(const desired::Node& node) {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node.name);
  if (found == nodes_.end()) return false;
  if (!found->second || node.version < *found->second) return true;
  nodes_.erase(found);
  return false;
}

}  // namespace pitcrew::gpu_operator
