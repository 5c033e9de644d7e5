// The operands, and what the rest of the product derives from their descriptors. There is one table
// of the product's own (Operands()); tests make others.
#pragma once

#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "desired/manifest.h"
#include "desired/operand.h"

namespace pitcrew::desired {

// Pods that must be gone while the driver, or something else of the GPUs, changes.
struct PausedPods {
  std::string_view label;  // the node label that keeps them there
  std::string_view app;    // value of their label "app"; "" when they are not waited for
};

class OperandTable {
 public:
  // `operands` in the order of roll-out; `manifests` sorted by state, then by file, and borrowed.
  OperandTable(std::vector<Operand> operands, std::span<const Manifest> manifests);
  // Its descriptors are pointed to.
  OperandTable(const OperandTable&) = delete;
  OperandTable& operator=(const OperandTable&) = delete;

  [[nodiscard]] auto begin() const { return operands_.begin(); }
  [[nodiscard]] auto end() const { return operands_.end(); }
  // Null when there is none.
  [[nodiscard]] const Operand* OfState(std::string_view state) const;
  [[nodiscard]] const Operand* OfDaemonSet(std::string_view daemonset) const;
  // Ends the process when there is none: a misspelt name in the program.
  [[nodiscard]] const Operand& Named(std::string_view name) const;
  // Those that are part of a node's chain, in its order.
  [[nodiscard]] const std::vector<const Operand*>& chain() const { return chain_; }
  // All that the operator manages, each key once: the operands', and those of pods that are not its
  // own.
  [[nodiscard]] const std::vector<DeployLabel>& deploy_labels() const { return deploy_labels_; }
  // Of all operands, each once.
  [[nodiscard]] const std::vector<std::string_view>& image_variables() const {
    return image_variables_;
  }
  // For the driver.
  [[nodiscard]] const std::vector<PausedPods>& paused_pods() const { return paused_pods_; }
  // For another change: of the operands that leave for it, in the order of roll-out.
  [[nodiscard]] std::vector<PausedPods> PodsLeavingFor(NodeChange change) const;
  // Their labels, each once.
  [[nodiscard]] std::vector<std::string_view> LabelsLeavingFor(NodeChange change) const;
  // What the pods of the operands with these deploy labels are called: their label "app", or
  // "name".
  [[nodiscard]] std::set<std::string, std::less<>> AppsOf(
      const std::vector<std::string_view>& deploy_labels) const;

  // The objects of one state, in file order. Files whose name contains "openshift" are left out
  // unless `openshift`. Errors name state and file.
  [[nodiscard]] base::Result<std::vector<Object>> LoadManifests(std::string_view state,
                                                                bool openshift) const;
  // The state whose manifests an object of that name is from, "" for none: of DaemonSets also those
  // with a suffix (one per kernel, per RHCOS version), of RuntimeClasses also those that a policy
  // names.
  [[nodiscard]] std::string_view StateOfName(const codec::Json& object) const;

 private:
  struct ManifestName {
    std::string_view state;
    std::string kind;
    std::string name;
  };
  // The manifests are parsed at their first use; most programs need none of them.
  [[nodiscard]] const std::vector<base::Result<Object>>& Parsed() const;
  // Kind and name of everything that any manifest makes, on whatever cluster.
  [[nodiscard]] const std::vector<ManifestName>& ManifestNames() const;

  std::vector<Operand> operands_;
  std::span<const Manifest> manifests_;
  std::vector<const Operand*> chain_;
  std::vector<DeployLabel> deploy_labels_;
  std::vector<std::string_view> image_variables_;
  std::vector<PausedPods> paused_pods_;
  mutable std::once_flag parsed_once_;
  mutable std::vector<base::Result<Object>> parsed_;  // beside manifests_
  mutable std::once_flag names_once_;
  mutable std::vector<ManifestName> names_;
};

// The product's own.
const OperandTable& Operands();

}  // namespace pitcrew::desired
