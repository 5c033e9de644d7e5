#include "desired/node.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_set>

#include "api/labels.h"
#include "api/qualification.h"
#include "base/strings.h"
#include "desired/node_labels.h"
#include "kube/projection.h"

namespace pitcrew::desired {
namespace {

namespace ondemand = simdjson::ondemand;

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
    api::kArchitecture,
    api::kOsReleaseId,
    api::kOsReleaseVersionId,
    api::kOsReleaseVersionMajor,
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
    api::kZone,
    api::kQualification,
};

// What annotations of a driver upgrade begin with (driver-lifecycle.md section 1.1).
constexpr std::string_view kUpgradePrefix = "nvidia.com/gpu-driver-upgrade";

base::Error NodeWithoutName() { return base::Invalid("NodeWithoutName", "a Node has no name"); }

void SetRuntime(Node& node, std::string_view container_runtime_version) {
  node.runtime = container_runtime_version.substr(0, container_runtime_version.find("://"));
}

// `quantity` of a resource in status.allocatable.
void AddResource(Node& node, std::string_view name, std::string_view quantity) {
  node.offers_gpu = node.offers_gpu || (name.starts_with(api::kResourcePrefix) && quantity != "0");
}

void AddLabel(Node& node, std::string_view key, std::string_view value,
              const LabelKeys& more_labels) {
  node.nfd_labels = node.nfd_labels || IsDiscoveryLabel(key);
  if (IsAlwaysKept(key) || more_labels.contains(key)) node.labels.Add(key, value);
}

void AddAnnotation(Node& node, std::string_view key, std::string_view value) {
  if (key == api::kUpgradeEnabledAnnotation) {
    node.upgrade_enabled = value;
  } else if (key == kMachineGpus) {
    node.has_machine_gpus = !base::Trim(value).empty();
  } else if (key == kCordonedByDriverManager) {
    node.cordoned_by_driver_manager = value == "true";
  } else if (key.starts_with(kUpgradePrefix)) {
    UpgradeAnnotations notes = node.UpgradeNotes();
    notes.insert_or_assign(std::string(key), std::string(value));
    node.upgrade = std::make_shared<const UpgradeAnnotations>(std::move(notes));
  }
}

simdjson::error_code ReadMetadata(ondemand::value value, const LabelKeys& more_labels, Node& node) {
  ondemand::object metadata;
  if (const auto error = value.get_object().get(metadata)) return error;
  for (auto field : metadata) {
    std::string_view key;
    std::string_view text;
    if (const auto error = field.unescaped_key().get(key)) return error;
    if (key == "name") {
      if (const auto error = field.value().get_string().get(text)) return error;
      node.name = std::string(text);
    } else if (key == "resourceVersion") {
      if (const auto error = field.value().get_string().get(text)) return error;
      node.version = base::ParseUnsigned(text).value_or(0);
    } else if (key == "labels" || key == "annotations") {
      const bool labels = key == "labels";
      ondemand::object entries;
      if (const auto error = field.value().get_object().get(entries)) return error;
      for (auto entry : entries) {
        std::string_view name;
        if (const auto error = entry.unescaped_key().get(name)) return error;
        if (const auto error = entry.value().get_string().get(text)) return error;
        if (labels) {
          AddLabel(node, name, text, more_labels);
        } else {
          AddAnnotation(node, name, text);
        }
      }
    }
  }
  return simdjson::SUCCESS;
}

void AddTaint(Node& node, std::string_view key, std::string_view effect) {
  node.held_for_qualification =
      node.held_for_qualification || api::IsNotQualifiedTaint(key, effect);
}

simdjson::error_code ReadTaints(ondemand::object& spec, Node& node) {
  ondemand::array taints;
  if (spec["taints"].get_array().get(taints) != simdjson::SUCCESS) return simdjson::SUCCESS;
  for (auto entry : taints) {
    ondemand::object taint;
    if (const auto error = entry.get_object().get(taint)) return error;
    std::string_view key;
    std::string_view effect;
    for (auto field : taint) {
      std::string_view name;
      if (const auto error = field.unescaped_key().get(name)) return error;
      if (name != "key" && name != "effect") continue;
      if (const auto error = field.value().get_string().get(name == "key" ? key : effect)) {
        return error;
      }
    }
    AddTaint(node, key, effect);
  }
  return simdjson::SUCCESS;
}

// The conditions stand behind the resources.
simdjson::error_code ReadConditions(ondemand::object& status, Node& node) {
  ondemand::array conditions;
  if (status["conditions"].get_array().get(conditions) != simdjson::SUCCESS) {
    return simdjson::SUCCESS;
  }
  for (auto entry : conditions) {
    ondemand::object condition;
    if (const auto error = entry.get_object().get(condition)) return error;
    bool is_ready = false;
    std::string_view value;
    for (auto field : condition) {
      std::string_view key;
      std::string_view text;
      if (const auto error = field.unescaped_key().get(key)) return error;
      if (key != "type" && key != "status") continue;
      if (const auto error = field.value().get_string().get(text)) return error;
      if (key == "type") is_ready = text == "Ready";
      if (key == "status") value = text;
    }
    if (is_ready) node.not_ready = value != "True";
  }
  return simdjson::SUCCESS;
}

// A node that has not reported yet has none. Stands before nodeInfo, as the API server writes it,
// so that both are found in one go.
simdjson::error_code ReadAllocatable(ondemand::object& status, Node& node) {
  ondemand::object resources;
  if (status["allocatable"].get_object().get(resources) != simdjson::SUCCESS) {
    return simdjson::SUCCESS;
  }
  for (auto resource : resources) {
    std::string_view name;
    std::string_view quantity;
    if (const auto error = resource.unescaped_key().get(name)) return error;
    if (!name.starts_with(api::kResourcePrefix)) continue;
    if (const auto error = resource.value().get_string().get(quantity)) return error;
    AddResource(node, name, quantity);
  }
  return simdjson::SUCCESS;
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
  return std::ranges::any_of(
      entries_, [&](const Entry& entry) { return *entry.key == key && *entry.value == value; });
}

std::vector<std::pair<std::string_view, std::string_view>> Labels::All() const {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  all.reserve(entries_.size());
  for (const Entry& entry : entries_) all.emplace_back(*entry.key, *entry.value);
  return all;
}

bool IsAlwaysKept(std::string_view key) {
  return key.starts_with(api::kDeployPrefix) ||
         std::ranges::find(kKeptLabels, key) != std::end(kKeptLabels);
}

bool IsDiscoveryLabel(std::string_view key) { return key.starts_with(api::kNfdPrefix); }

bool Node::has_gpu_pci_label() const {
  return !GpuPciLabel([&](std::string_view key) { return labels.Get(key); }).empty();
}

const UpgradeAnnotations& Node::UpgradeNotes() const {
  static const UpgradeAnnotations kNone;
  return upgrade == nullptr ? kNone : *upgrade;
}

bool Node::gpu_present() const { return labels.Is(api::kGpuPresent, "true"); }

std::optional<Runtime> GpuRuntimeOf(const Node& node) {
  if (!node.gpu_present() && !node.has_gpu_pci_label()) return std::nullopt;
  const auto runtime = RuntimeOf(node.runtime);
  return runtime ? std::optional(*runtime) : std::nullopt;
}

base::Result<Node> ReadNode(const codec::Json& object, const LabelKeys& more_labels) {
  Node node;
  node.name = codec::FindString(object, {"metadata", "name"});
  if (node.name.empty()) return base::Fail(NodeWithoutName());
  node.version =
      base::ParseUnsigned(codec::FindString(object, {"metadata", "resourceVersion"})).value_or(0);
  SetRuntime(node, codec::FindString(object, {"status", "nodeInfo", "containerRuntimeVersion"}));
  if (const auto* labels = codec::Find(object, {"metadata", "labels"});
      labels != nullptr && labels->is_object()) {
    for (const auto& [key, value] : labels->items()) {
      if (value.is_string()) AddLabel(node, key, value.get_ref<const std::string&>(), more_labels);
    }
  }
  if (const auto* annotations = codec::Find(object, {"metadata", "annotations"});
      annotations != nullptr && annotations->is_object()) {
    for (const auto& [key, value] : annotations->items()) {
      if (value.is_string()) AddAnnotation(node, key, value.get_ref<const std::string&>());
    }
  }
  const auto* unschedulable = codec::Find(object, {"spec", "unschedulable"});
  node.unschedulable = unschedulable != nullptr && *unschedulable == true;
  if (const auto* taints = codec::Find(object, {"spec", "taints"});
      taints != nullptr && taints->is_array()) {
    for (const codec::Json& taint : *taints) {
      AddTaint(node, codec::FindString(taint, {"key"}), codec::FindString(taint, {"effect"}));
    }
  }
  if (const auto* conditions = codec::Find(object, {"status", "conditions"});
      conditions != nullptr && conditions->is_array()) {
    for (const codec::Json& condition : *conditions) {
      if (codec::FindString(condition, {"type"}) == "Ready") {
        node.not_ready = codec::FindString(condition, {"status"}) != "True";
      }
    }
  }
  if (const auto* resources = codec::Find(object, {"status", "allocatable"});
      resources != nullptr && resources->is_object()) {
    for (const auto& [name, quantity] : resources->items()) {
      if (quantity.is_string()) AddResource(node, name, quantity.get_ref<const std::string&>());
    }
  }
  return node;
}

base::Result<Node> ReadNodeText(std::string_view raw, const LabelKeys& more_labels) {
  Node node;
  TRY(kube::ReadOnDemand(raw, [&](ondemand::object& object) -> simdjson::error_code {
    for (auto field : object) {
      std::string_view key;
      if (const auto error = field.unescaped_key().get(key)) return error;
      if (key == "metadata") {
        if (const auto error = ReadMetadata(field.value(), more_labels, node)) return error;
      } else if (key == "spec") {
        ondemand::object spec;
        if (field.value().get_object().get(spec) != simdjson::SUCCESS) continue;
        bool unschedulable = false;
        if (spec["unschedulable"].get_bool().get(unschedulable) == simdjson::SUCCESS) {
          node.unschedulable = unschedulable;
        }
        if (const auto error = ReadTaints(spec, node)) return error;
      } else if (key == "status") {
        ondemand::object status;
        if (const auto error = field.value().get_object().get(status)) return error;
        if (const auto error = ReadAllocatable(status, node)) return error;
        if (const auto error = ReadConditions(status, node)) return error;
        std::string_view version;
        // A node that has not reported yet has no nodeInfo.
        if (status["nodeInfo"]["containerRuntimeVersion"].get_string().get(version) ==
            simdjson::SUCCESS) {
          SetRuntime(node, version);
        }
      }
    }
    return simdjson::SUCCESS;
  }));
  if (node.name.empty()) return base::Fail(NodeWithoutName());
  return node;
}

}  // namespace pitcrew::desired
