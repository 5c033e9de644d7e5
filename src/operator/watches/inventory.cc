#include "operator/watches/inventory.h"

#include "api/labels.h"
#include "kube/projection.h"

namespace pitcrew::gpu_operator {

Inventory::Inventory(const std::shared_ptr<kube::Client>& client,
                     std::string_view operator_namespace, const desired::OptionalKinds& served) {
  for (const kube::ResourceKind& kind : desired::OwnedKinds()) {
    if (!desired::IsServed(kind, served)) continue;
    kube::InformerOptions options;
    if (kind.namespaced) options.namespace_name = std::string(operator_namespace);
    if (kind != kube::kConfigMaps) options.label_selector = std::string(api::kStateLabel);
    auto projection = kube::ProjectJson<desired::OwnedObject>(
        [](const codec::Json& object) -> base::Result<desired::OwnedObject> {
          return desired::ReadOwned(object);
        });
    kinds_.push_back(
        {&kind, std::make_unique<OwnedInformer>(client, kind, std::move(projection), options)});
  }
}

const kube::Store<desired::OwnedObject>* Inventory::StoreOf(const kube::ResourceKind& kind) const {
  for (const Kind& entry : kinds_) {
    if (entry.kind->plural == kind.plural && entry.kind->group == kind.group) {
      return &entry.informer->store();
    }
  }
  return nullptr;
}

}  // namespace pitcrew::gpu_operator
