#include "operator/definitions/definition_controller.h"

#include "base/log.h"
#include "base/strings.h"
#include "kube/projection.h"

namespace pitcrew::gpu_operator {

using codec::Json;

DefinitionController::DefinitionController(std::shared_ptr<kube::Client> client, bool manages,
                                           std::function<void()> changed)
    : client_(std::move(client)),
      manages_(manages),
      changed_(std::move(changed)),
      controller_({.name = "definitions", .workers = 1, .backoff = {}},
                  [this](const kube::ObjectKey& key, const io::StopToken& stop) {
                    return Reconcile(key, stop);
                  }) {
  const auto definitions = OwnDefinitions();
  if (!definitions) {
    base::LogError("the embedded definitions cannot be read", definitions.error());
    return;
  }
  for (const Json& definition : *definitions) {
    const std::string name = codec::FindString(definition, {"metadata", "name"});
    Own& own = own_[name];
    own.definition = definition;
    Watch(own, name);
  }
}

void DefinitionController::Watch(Own& own, const std::string& name) {
  own.informer = std::make_unique<kube::Informer<View>>(
      client_, kube::kCustomResourceDefinitions,
      kube::ProjectJson<View>([&own](const Json& object) -> base::Result<View> {
        return View{.deleting = codec::Find(object, {"metadata", "deletionTimestamp"}) != nullptr,
                    .removed = codec::FindString(object, {"metadata", "annotations",
                                                          kRemovedAnnotation}) == "true",
                    .comparison = CompareDefinitions(object, own.definition)};
      }),
      kube::InformerOptions{.field_selector = "metadata.name=" + name});
  controller_.Watch<View>(*own.informer,
                          [this, &own](const kube::Change<View>& change, const auto& enqueue) {
                            if (change.now == nullptr) {
                              const std::lock_guard lock(mutex_);
                              own.removed = change.before != nullptr && change.before->removed;
                            }
                            enqueue(change.key);
                          });
}

base::Status DefinitionController::Run(const io::StopToken& stop) {
  // Also those that are not there, of which no watch will tell.
  for (const auto& [name, own] : own_) {
    controller_.Enqueue({.namespace_name = "", .name = name});
  }
  return controller_.Run(stop);
}

std::string DefinitionController::outdated() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> texts;
  for (const auto& [name, text] : outdated_) {
    if (!text.empty()) texts.push_back(text);
  }
  return base::Join(texts, "; ");
}

void DefinitionController::Report(const std::string& name, const std::string& outdated) {
  {
    const std::lock_guard lock(mutex_);
    std::string& known = outdated_[name];
    if (known == outdated) return;
    known = outdated;
  }
  if (outdated.empty()) {
    base::LogInfo("the CustomResourceDefinition is up to date again", {{"name", name}});
  } else {
    base::LogWarning("the CustomResourceDefinition is outdated",
                     {{"name", name}, {"message", outdated}});
  }
  changed_();
}

base::Result<DefinitionChange> DefinitionController::Ensure(const Own& own, const std::string& name,
                                                            const io::StopToken& stop) {
  const auto change = EnsureDefinition(*client_, own.definition, {}, stop);
  if (change) {
    base::LogInfo("CustomResourceDefinition", {{"name", name}, {"change", ToString(*change)}});
    return *change;
  }
  // Who runs the operator without this right installs them otherwise.
  if (change.error().code != base::Code::kDenied) return base::Fail(change.error());
  base::LogWarning("no right to install or upgrade CustomResourceDefinitions", change.error(),
                   {{"name", name}});
  return DefinitionChange::kNone;
}

base::Result<kube::Action> DefinitionController::Reconcile(const kube::ObjectKey& key,
                                                           const io::StopToken& stop) {
  const auto own = own_.find(key.name);
  if (own == own_.end()) return kube::Action::Done();
  const auto found = own->second.informer->store().Find(key);
  if (found.is_unknown()) return base::Fail(*found.error());
  if (found.is_absent()) {
    bool removed = false;
    {
      const std::lock_guard lock(mutex_);
      removed = own->second.removed;
    }
    base::LogWarning("the CustomResourceDefinition does not exist, and so no object of its kind",
                     {{"name", key.name},
                      {"next", removed    ? "it was removed on purpose; nothing is done"
                               : manages_ ? "it is installed"
                                          : "install it: pitcrew manage-crds apply"}});
    if (manages_ && !removed) TRY(Ensure(own->second, key.name, stop));
    return kube::Action::Done();
  }
  const View& view = **found.value();
  if (view.deleting || view.removed) return kube::Action::Done();
  if (manages_ && view.comparison.state == SchemaState::kOlder) {
    TRY_ASSIGN(const DefinitionChange change, Ensure(own->second, key.name, stop));
    if (change != DefinitionChange::kNone) return kube::Action::Done();  // the watch tells
  }
  Report(key.name, DescribeOutdated(key.name, view.comparison));
  return kube::Action::Done();
}

}  // namespace pitcrew::gpu_operator
