#include "node/driver_manager/operand_labels.h"

#include "desired/operand_table.h"

namespace pitcrew::node::driver_manager {

std::vector<std::string_view> LabelsToPause(std::string_view custom_label) {
  std::vector<std::string_view> labels;
  for (const auto& paused : desired::Operands().paused_pods()) labels.push_back(paused.label);
  if (!custom_label.empty()) labels.push_back(custom_label);
  return labels;
}

std::set<std::string, std::less<>> AppsToAwait() {
  std::set<std::string, std::less<>> apps;
  for (const auto& paused : desired::Operands().paused_pods()) {
    if (!paused.app.empty()) apps.emplace(paused.app);
  }
  return apps;
}

}  // namespace pitcrew::node::driver_manager
