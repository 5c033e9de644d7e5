#include "desired/operands/driver_manager.h"

#include "desired/daemonset.h"
#include "desired/pod.h"

namespace pitcrew::desired {

base::Status ApplyDriverManager(Object& daemonset, const api::DriverManager& manager,
                                const std::optional<codec::Json>& resources,
                                const Context& context) {
  TRY_ASSIGN(Object * container, RequireContainer(daemonset, "k8s-driver-manager"));
  TRY_ASSIGN((*container)["image"],
             ResolveImage(manager.image, kDriverManagerImage, context.images));
  if (!manager.image.pull_policy.empty()) {
    (*container)["imagePullPolicy"] = PullPolicy(manager.image.pull_policy);
  }
  SetResources(*container, resources);
  SetEnv(*container, manager.env);
  AddPullSecrets(daemonset, manager.image.pull_secrets);
  return {};
}

}  // namespace pitcrew::desired
