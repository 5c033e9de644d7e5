#include "kubevirt/kinds.h"

#include "desired/cluster_kinds.h"

namespace pitcrew::kubevirt {
namespace {

constexpr Form kForms[] = {Form::kKubeVirt, Form::kHyperConvergedV1Beta1, Form::kHyperConvergedV1};

}  // namespace

const kube::ResourceKind& KindOf(Form form) {
  switch (form) {
    case Form::kHyperConvergedV1Beta1:
      return kHyperConvergedsV1Beta1;
    case Form::kHyperConvergedV1:
      return kHyperConvergedsV1;
    case Form::kKubeVirt:
      break;
  }
  return kKubeVirts;
}

std::optional<Form> FormOf(const codec::Json& object) {
  const auto version = codec::FindString(object, {"apiVersion"});
  const auto kind = codec::FindString(object, {"kind"});
  for (const Form form : kForms) {
    if (KindOf(form).kind == kind && KindOf(form).api_version() == version) return form;
  }
  return std::nullopt;
}

std::optional<Form> FormOfDefinition(const codec::Json& definition) {
  std::optional<Form> served;
  if (!desired::IsEstablished(definition)) return served;
  const codec::Json* versions = codec::Find(definition, {"spec", "versions"});
  if (versions == nullptr || !versions->is_array()) return served;
  for (const auto& version : *versions) {
    const auto is = [&](const char* field) {
      const codec::Json* value = codec::Find(version, {field});
      return value != nullptr && *value == true;
    };
    for (const Form form : {Form::kHyperConvergedV1Beta1, Form::kHyperConvergedV1}) {
      if (codec::FindString(version, {"name"}) != KindOf(form).version || !is("served")) continue;
      if (is("storage")) return form;
      if (!served) served = form;
    }
  }
  return served;
}

}  // namespace pitcrew::kubevirt
