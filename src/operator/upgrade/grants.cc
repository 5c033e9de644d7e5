#include "operator/upgrade/grants.h"

namespace pitcrew::gpu_operator {

void Grants::Give(const std::string& node, const std::string& version) {
  const std::lock_guard lock(mutex_);
  nodes_[node] = {.version = version, .used = std::nullopt};
}

bool Grants::Has(const std::string& node, const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  return found != nodes_.end() && !found->second.used &&
         (found->second.version.empty() || found->second.version == version);
}

void Grants::Use(const std::string& node, std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  if (const auto found = nodes_.find(node); found != nodes_.end()) {
    found->second.used = version;
  }
}

bool Grants::Return(const std::string& node) {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || found->second.used) return false;
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
  if (!found->second.used || node.version < *found->second.used) return true;
  nodes_.erase(found);
  return false;
}

}  // namespace pitcrew::gpu_operator
