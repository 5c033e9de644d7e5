// Which NVIDIADriver a node gets its driver from (reference operator-behaviour.md section 7.5): the
// one whose selector the node has, else the default one. A node that two select stays with what it
// has, and both are told; the other nodes go on.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/nvidia_driver.h"
#include "desired/driver_objects/driver_view.h"
#include "desired/node.h"

namespace pitcrew::desired {

// What is wrong with the selector of one driver, beginning with the field's path; "" when nothing
// is (clusterpolicy-api.md section 3.3).
std::string SelectorProblem(const api::NvidiaDriver& driver);

// Of all drivers of a cluster. Immutable once made, so that threads may share it.
class DriverAssignment {
 public:
  // Those that are being deleted get no nodes.
  explicit DriverAssignment(std::span<const std::shared_ptr<const DriverView>> drivers);

  // A node's driver.
  struct Choice {
    // Nobody can say: the node keeps what it has.
    bool open = false;
    // Null: none. Borrowed from the assignment.
    const api::NvidiaDriver* driver = nullptr;
    // Names of the drivers that all select the node, sorted; else empty.
    std::vector<std::string> rivals = {};
  };
  [[nodiscard]] Choice Of(const Labels& labels) const;

  // Names of the default drivers when there are several, sorted.
  [[nodiscard]] const std::vector<std::string>& rival_defaults() const { return rival_defaults_; }
  // The driver of that name; null when there is none, or it is being deleted.
  [[nodiscard]] const api::NvidiaDriver* Named(std::string_view name) const;
  // What must be kept of nodes, so that Of tells the truth.
  [[nodiscard]] LabelKeys keys() const;

 private:
  std::vector<std::shared_ptr<const DriverView>> drivers_;  // by name
  std::vector<std::string> rival_defaults_;
  const api::NvidiaDriver* default_ = nullptr;
  bool broken_ = false;  // a selector says nothing that could be followed
};

}  // namespace pitcrew::desired
