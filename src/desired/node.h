// What the operator keeps of a Node: a projection of about half a kilobyte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "desired/runtime.h"

namespace pitcrew::desired {

// Labels of a node that the operator reads or writes, sorted by key. Keys and values are shared
// between all nodes: a fleet has few distinct ones.
class Labels {
 public:
  Labels() = default;

  // Keeps `key` when the operator has a use for it, and ignores it otherwise. The last value of a
  // key wins.
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

struct Node {
  std::string name;
  Labels labels;
  // The annotation nvidia.com/gpu-driver-upgrade-enabled; "" when absent.
  std::string_view upgrade_enabled;
  // status.nodeInfo.containerRuntimeVersion up to "://".
  std::string_view runtime;
  // resourceVersion in which the rest of this was first seen.
  std::uint64_t version = 0;
  // Any label of node feature discovery: the evidence that it has looked at this node.
  bool nfd_labels = false;

  // One of the three PCI labels is exactly "true" (operator-behaviour.md section 7.3).
  [[nodiscard]] bool has_gpu_pci_label() const;
  [[nodiscard]] bool gpu_present() const;

  // A new version alone, for example a heartbeat, is no change.
  bool operator==(const Node& other) const {
    return name == other.name && labels == other.labels &&
           upgrade_enabled == other.upgrade_enabled && runtime == other.runtime &&
           nfd_labels == other.nfd_labels;
  }
};

// The runtime of a node with a GPU, labelled or not; none for other nodes and unknown runtimes.
std::optional<Runtime> GpuRuntimeOf(const Node& node);

// From a Node object.
base::Result<Node> ReadNode(const codec::Json& object);

// The same from its text, touching only the fields above: the projection of the node watch.
// At least kube::kReadablePadding bytes follow `raw`.
base::Result<Node> ReadNodeText(std::string_view raw);

// Keeps one copy of each text for the life of the process. Only for texts of which a fleet has few.
const std::string& Intern(std::string_view text);

}  // namespace pitcrew::desired
