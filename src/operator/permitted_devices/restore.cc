#include "operator/permitted_devices/restore.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/log.h"
#include "desired/owned_object.h"
#include "kubevirt/decision.h"
#include "kubevirt/kinds.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;
using kubevirt::Form;

// The forms in which such objects are served now.
base::Result<std::vector<Form>> ServedForms(kube::Client& client, const io::StopToken& stop) {
  std::vector<Form> forms;
  const kube::ObjectKey key{.namespace_name = "",
                            .name = std::string(kubevirt::kHyperConvergedDefinition)};
  const auto definition = client.Get(kube::kCustomResourceDefinitions, key, stop);
  if (!definition && definition.error().code != base::Code::kNotFound) {
    return base::Fail(definition.error());
  }
  if (definition) {
    if (const auto form = kubevirt::FormOfDefinition(*definition)) forms.push_back(*form);
  }
  forms.push_back(Form::kKubeVirt);
  return forms;
}

base::Status RestoreOne(kube::Client& client, Form form, const kube::ObjectKey& key,
                        const io::StopToken& stop) {
  const auto& kind = kubevirt::KindOf(form);
  const auto object = client.Get(kind, key, stop);
  if (!object) {
    return object.error().code == base::Code::kNotFound ? base::Status{}
                                                        : base::Fail(object.error());
  }
  TRY_ASSIGN(const auto decision, kubevirt::DecideRestore(*object, form));
  if (!decision.patch) return {};
  Json patch = *decision.patch;
  patch["metadata"]["resourceVersion"] =
      codec::FindString(*object, {"metadata", "resourceVersion"});
  TRY(client.Patch(kind, key, kube::PatchType::kMerge, patch,
                   {.field_manager = std::string(desired::kFieldManager), .subresource = {}},
                   stop));
  base::LogInfo("devices are no longer permitted by us",
                {{"kind", kind.kind}, {"name", key.ToString()}});
  return {};
}

base::Status RestoreForm(kube::Client& client, Form form,
                         std::chrono::steady_clock::time_point deadline,
                         const io::StopToken& stop) {
  const auto& kind = kubevirt::KindOf(form);
  const auto listed = client.List(kind, "", {}, stop);
  if (!listed) {
    const auto& error = listed.error();
    if (error.reason == "ResourceNotServed" || error.code == base::Code::kNotFound) return {};
    if (error.code != base::Code::kDenied) return base::Fail(error);
    // The usual case: the chart gives the right only to who permits devices.
    base::LogDebug("no right to see whether devices were permitted there",
                   {{"kind", kind.kind}, {"message", error.message}});
    return {};
  }
  for (const Json& object : listed->items) {
    if (!kubevirt::HasRecord(object)) continue;
    const auto key = kube::KeyOf(object);
    base::Status restored = RestoreOne(client, form, key, stop);
    // Somebody has changed it between reading and writing: read again.
    while (!restored && restored.error().code == base::Code::kConflict &&
           std::chrono::steady_clock::now() < deadline && !stop.stopped()) {
      restored = RestoreOne(client, form, key, stop);
    }
    if (!restored) {
      return base::Fail(restored.error().Within(
          fmt::format("take permitted devices out of {} {}", kind.kind, key.ToString())));
    }
  }
  return {};
}

}  // namespace

base::Status RestorePermittedDevices(kube::Client& client,
                                     std::chrono::steady_clock::time_point deadline,
                                     const io::StopToken& stop) {
  TRY_ASSIGN(const auto forms, ServedForms(client, stop));
  for (const Form form : forms) TRY(RestoreForm(client, form, deadline, stop));
  return {};
}

}  // namespace pitcrew::gpu_operator
