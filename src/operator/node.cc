#include "operator/node.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_set>

#include "api/labels.h"

namespace pitcrew::gpu_operator {
namespace {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

// Labels outside gpu.deploy.* that some rule of the operator reads (operator-behaviour.md
// sections 3, 4.1, 7 and 8.2).
constexpr std::string_view kKeptLabels[] = {
    api::kPciVendorPresent,
    api::kPci3dControllerPresent,
    api::kPciVgaControllerPresent,
    api::kKernelVersionFull,
    api::kOsReleaseId,
    api::kOsReleaseVersionId,
    api::kOsTreeVersion,
    api::kGpuPresent,
    api::kWorkloadConfig,
    api::kDriverOwner,
    api::kUpgradeState,
    api::kUpgradeSkip,
    api::kMigConfig,
    api::kMigCapable,
    api::kGpuProduct,
    api::kMpsCapable,
    api::kVgpuHostDriverVersion,
};

bool IsKept(std::string_view key) {
  return key.starts_with(api::kDeployPrefix) ||
         std::ranges::find(kKeptLabels, key) != std::end(kKeptLabels);
}

}  // namespace

const std::string& Intern(std::string_view text) {
  static std::mutex mutex;
  static std::unordered_set<std::string, TextHash, std::equal_to<>> pool;
  const std::lock_guard lock(mutex);
  const auto found = pool.find(text);
  return found != pool.end() ? *found : *pool.emplace(text).first;
}

void Labels::Add(std::string_view key, std::string_view value) {
  if (!IsKept(key)) return;
  const auto place = std::ranges::lower_bound(
      entries_, key, {}, [](const Entry& entry) -> std::string_view { return *entry.key; });
  if (place != entries_.end() && *place->key == key) {
    place->value = &Intern(value);
    return;
  }
  entries_.insert(place, Entry{&Intern(key), &Intern(value)});
}

bool Labels::Has(std::string_view key) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) { return *entry.key == key; });
}

std::string_view Labels::Get(std::string_view key) const {
  for (const Entry& entry : entries_) {
    if (*entry.key == key) return *entry.value;
  }
  return "";
}

bool Labels::Is(std::string_view key, std::string_view value) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    return *entry.key == key && *entry.value == value;
  });
}

std::vector<std::pair<std::string_view, std::string_view>> Labels::All() const {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  all.reserve(entries_.size());
  for (const Entry& entry : entries_) all.emplace_back(*entry.key, *entry.value);
  return all;
}

bool Node::has_gpu_pci_label() const {
  return std::ranges::any_of(api::kGpuPciLabels,
                             [&](std::string_view key) { return labels.Is(key, "true"); });
}

bool Node::gpu_present() const { return labels.Is(api::kGpuPresent, "true"); }

Node MakeNode(std::string_view name, std::string_view container_runtime_version) {
  Node node;
  node.name = std::string(name);
  node.runtime =
      Intern(container_runtime_version.substr(0, container_runtime_version.find("://")));
  return node;
}

base::Result<Node> ReadNode(const codec::Json& object) {
  const std::string name = codec::FindString(object, {"metadata", "name"});
  if (name.empty()) return base::Fail(base::Invalid("NodeWithoutName", "a Node has no name"));
  Node node =
      MakeNode(name, codec::FindString(object, {"status", "nodeInfo", "containerRuntimeVersion"}));
  if (const auto* labels = codec::Find(object, {"metadata", "labels"});
      labels != nullptr && labels->is_object()) {
    for (const auto& [key, value] : labels->items()) {
      if (!value.is_string()) continue;
      node.nfd_labels = node.nfd_labels || key.starts_with(api::kNfdPrefix);
      node.labels.Add(key, value.get_ref<const std::string&>());
    }
  }
  node.upgrade_enabled = Intern(codec::FindString(
      object, {"metadata", "annotations", std::string_view(api::kUpgradeEnabledAnnotation)}));
  return node;
}

}  // namespace pitcrew::gpu_operator
