#include "desired/driver_objects/assignment.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"

namespace pitcrew::desired {
namespace {

bool Selects(const api::NvidiaDriver& driver, const Labels& labels) {
  if (!driver.node_selector) return labels.Is(api::kGpuPresent, "true");
  return std::ranges::all_of(*driver.node_selector, [&](const auto& label) {
    return labels.Has(label.first) && labels.Get(label.first) == label.second;
  });
}

// A value of the selector could not be read: it would select other nodes than was meant.
bool IsUnreadable(const api::NvidiaDriver& driver) {
  return std::ranges::any_of(driver.problems, [](const api::FieldProblem& problem) {
    return problem.path == "spec" || problem.path == "spec.default" ||
           problem.path.starts_with("spec.nodeSelector");
  });
}

}  // namespace

std::string SelectorProblem(const api::NvidiaDriver& driver) {
  if (!driver.node_selector) return "";
  if (driver.is_default && !driver.node_selector->empty()) {
    return "spec.nodeSelector: a default NVIDIADriver is for the nodes that no other one selects, "
           "and has no selector of its own";
  }
  if (driver.node_selector->contains(api::kDriverOwner)) {
    return fmt::format(
        "spec.nodeSelector: the label {} is the operator's own, and cannot be selected by",
        api::kDriverOwner);
  }
  return "";
}

DriverAssignment::DriverAssignment(std::span<const std::shared_ptr<const DriverView>> drivers) {
  for (const auto& view : drivers) {
    if (view != nullptr && !view->deleting) drivers_.push_back(view);
  }
  std::ranges::sort(drivers_, {}, [](const auto& view) { return view->driver.name; });
  std::vector<std::string> defaults;
  for (const auto& view : drivers_) {
    broken_ = broken_ || !SelectorProblem(view->driver).empty() || IsUnreadable(view->driver);
    if (!view->driver.is_default) continue;
    default_ = &view->driver;
    defaults.push_back(view->driver.name);
  }
  if (defaults.size() > 1) {
    rival_defaults_ = std::move(defaults);
    default_ = nullptr;
  }
}

DriverAssignment::Choice DriverAssignment::Of(const Labels& labels) const {
  if (broken_) return {.open = true};
  Choice choice;
  for (const auto& view : drivers_) {
    if (view->driver.is_default || !Selects(view->driver, labels)) continue;
    choice.driver = &view->driver;
    choice.rivals.push_back(view->driver.name);
  }
  if (choice.rivals.size() > 1) {
    choice.open = true;
    choice.driver = nullptr;
    return choice;
  }
  choice.rivals.clear();
  if (choice.driver == nullptr) {
    choice.driver = default_;
    choice.open = !rival_defaults_.empty();
  }
  return choice;
}

const api::NvidiaDriver* DriverAssignment::Named(std::string_view name) const {
  const auto found =
      std::ranges::find(drivers_, name, [](const auto& view) { return view->driver.name; });
  return found == drivers_.end() ? nullptr : &(*found)->driver;
}

LabelKeys DriverAssignment::keys() const {
  LabelKeys keys;
  for (const auto& view : drivers_) {
    if (!view->driver.node_selector) continue;
    for (const auto& [key, value] : *view->driver.node_selector) keys.insert(key);
  }
  return keys;
}

}  // namespace pitcrew::desired
