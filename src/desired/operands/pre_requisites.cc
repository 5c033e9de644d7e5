// RuntimeClasses (reference operand-manifests.md section 4).
#include <algorithm>
#include <string_view>

#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.cdi.nri_plugin_enabled ? Mode::kDisabled : Mode::kEnabled;
}

// node.k8s.io/v1 came with Kubernetes 1.20; upstream's comparison also sends v1.20.0 to v1beta1.
bool NeedsBetaApi(std::string_view kubernetes_version) {
  return kubernetes_version == "v1.20.0" || kubernetes_version.starts_with("v1.19.") ||
         kubernetes_version.starts_with("v1.18.") || kubernetes_version.starts_with("v1.17.");
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  if (!context.policy.cdi.enabled) {
    std::erase_if(objects, [](const Object& object) {
      return NameOf(object) == "nvidia-cdi" || NameOf(object) == "nvidia-legacy";
    });
  }
  const std::string& configured = context.policy.operator_settings.runtime_class;
  if (Object* main = FindObject(objects, "RuntimeClass", "nvidia");
      main != nullptr && !configured.empty()) {
    (*main)["metadata"]["name"] = configured;
    (*main)["handler"] = configured;
  }
  if (NeedsBetaApi(context.facts.kubernetes_version)) {
    for (Object& object : objects) object["apiVersion"] = "node.k8s.io/v1beta1";
  }
  return {};
}

}  // namespace

Operand PreRequisites() {
  return {.state = "pre-requisites",
          .condition = "PreRequisitesReady",
          .title = "runtime classes",
          .name = "runtime classes",
          .blocks = {},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
