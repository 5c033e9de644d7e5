// What the operator keeps of a Node: a projection of about half a kilobyte.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/labels.h"
#include "base/result.h"
#include "codec/json.h"
#include "desired/runtime.h"

namespace pitcrew::desired {

// Keeps one copy of each text for the life of the process. Only for texts of which a fleet has few.
const std::string& Intern(std::string_view text);

// An interned text, in the size of a pointer.
class InternedText {
 public:
  InternedText() = default;
  InternedText(std::string_view text) : text_(text.empty() ? nullptr : &Intern(text)) {}  // NOLINT

  [[nodiscard]] bool empty() const { return text_ == nullptr; }
  [[nodiscard]] std::string_view view() const {
    return text_ == nullptr ? std::string_view() : std::string_view(*text_);
  }
  operator std::string_view() const { return view(); }  // NOLINT: it is one
  bool operator==(const InternedText& other) const = default;
  friend bool operator==(const InternedText& a, std::string_view b) { return a.view() == b; }

 private:
  const std::string* text_ = nullptr;
};

// Labels of a node that the operator reads or writes, sorted by key. Keys and values are shared
// between all nodes: a fleet has few distinct ones.
class Labels {
 public:
  Labels() = default;

  // The last value of a key wins.
  void Add(std::string_view key, std::string_view value);

  [[nodiscard]] bool Has(std::string_view key) const;
  // The value, or "" when there is none.
  [[nodiscard]] std::string_view Get(std::string_view key) const;
  [[nodiscard]] bool Is(std::string_view key, std::string_view value) const;
  [[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> All() const;

  bool operator==(const Labels& other) const { return entries_ == other.entries_; }

 private:
  struct Entry {
    const std::string* key;
    const std::string* value;

    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> entries_;
};

// Keys of labels that are kept beside those that the operator itself reads, for example because a
// selector of a NVIDIADriver object mentions them.
using LabelKeys = std::set<std::string, std::less<>>;

// The operator itself reads labels of that key, so they are always kept.
bool IsAlwaysKept(std::string_view key);

// Annotation, "true", with which a driver manager remembers that it was the one that cordoned the
// node.
inline constexpr std::string_view kCordonedByDriverManager =
    "nvidia.com/gpu-driver-manager.cordoned";

// Annotations of a node whose driver is being upgraded, by key; without
// nvidia.com/gpu-driver-upgrade-enabled, which most nodes have.
using UpgradeAnnotations = std::map<std::string, std::string, std::less<>>;

struct Node {
  std::string name;
  Labels labels;
  // The annotation nvidia.com/gpu-driver-upgrade-enabled; "" when absent.
  InternedText upgrade_enabled;
  // status.nodeInfo.containerRuntimeVersion up to "://".
  InternedText runtime;
  // Null where there never was an upgrade.
  std::shared_ptr<const UpgradeAnnotations> upgrade;
  // resourceVersion in which the rest of this was first seen.
  std::uint64_t version = 0;
  // Any label of node feature discovery: the evidence that it has looked at this node.
  bool nfd_labels = false;
  bool unschedulable = false;  // spec.unschedulable: it is cordoned
  // Its condition Ready is there and not True.
  bool not_ready = false;
  // It has the taint api::kNotQualifiedTaint.
  bool held_for_qualification = false;
  // Its annotation kMachineGpus (node_labels.h) names something.
  bool has_machine_gpus = false;
  // A driver manager has cordoned it (kCordonedByDriverManager).
  bool cordoned_by_driver_manager = false;
  // The kubelet offers resources of nvidia.com: the evidence that a device plugin sees a GPU there.
  bool offers_gpu = false;

  [[nodiscard]] bool has_gpu_pci_label() const;
  [[nodiscard]] bool gpu_present() const;

  // `upgrade`, or none of them.
  [[nodiscard]] const UpgradeAnnotations& UpgradeNotes() const;

  // A new version alone, for example a heartbeat, is no change.
  bool operator==(const Node& other) const {
    return name == other.name && labels == other.labels &&
           upgrade_enabled == other.upgrade_enabled && runtime == other.runtime &&
           nfd_labels == other.nfd_labels && unschedulable == other.unschedulable &&
           not_ready == other.not_ready && offers_gpu == other.offers_gpu &&
           has_machine_gpus == other.has_machine_gpus &&
           cordoned_by_driver_manager == other.cordoned_by_driver_manager &&
           held_for_qualification == other.held_for_qualification &&
           UpgradeNotes() == other.UpgradeNotes();
  }
};

// Of node feature discovery: the evidence that it has looked at a node.
bool IsDiscoveryLabel(std::string_view key);

// The first of the three PCI labels that is exactly "true" (operator-behaviour.md section 7.3); ""
// when none is: the node has no GPU as far as discovery knows. `label` gives the value of a key.
template <class LabelOf>
std::string_view GpuPciLabel(LabelOf&& label) {
  const auto* const found = std::ranges::find_if(
      api::kGpuPciLabels, [&](std::string_view key) { return label(key) == "true"; });
  return found == std::end(api::kGpuPciLabels) ? std::string_view() : *found;
}

// The runtime of a node with a GPU, labelled or not; none for other nodes and unknown runtimes.
std::optional<Runtime> GpuRuntimeOf(const Node& node);

// From a Node object.
base::Result<Node> ReadNode(const codec::Json& object, const LabelKeys& more_labels = {});

// The same from its text, touching only the fields above: the projection of the node watch.
// At least kube::kReadablePadding bytes follow `raw`.
base::Result<Node> ReadNodeText(std::string_view raw, const LabelKeys& more_labels = {});

}  // namespace pitcrew::desired
