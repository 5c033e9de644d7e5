#include "fleet/fields.h"

namespace pitcrew::fleet {
namespace {

bool IsValidation(std::string_view container) {
  return container.find("validation") != std::string_view::npos;
}

}  // namespace

std::string ImageFieldOf(const Operand& operand, std::string_view container) {
  if (IsValidation(container)) return "validator";
  if (container == "k8s-driver-manager") {
    return std::string(operand.field()) +
           (operand.field() == "driver" ? ".manager" : ".driverManager");
  }
  if (container.starts_with("config-manager")) return "devicePlugin";
  if (container == "nvidia-fs-ctr") return "gds";
  if (container == "nvidia-gdrcopy-ctr") return "gdrcopy";
  // The image of OpenShift's ImageStream.
  if (container == "openshift-driver-toolkit-ctr") return "";
  return std::string(operand.field());
}

std::string ResourcesFieldOf(const Operand& operand, std::string_view container) {
  return IsValidation(container) ? "validator" : std::string(operand.field());
}

}  // namespace pitcrew::fleet
