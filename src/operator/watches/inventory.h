// The operator's watches of the objects that operands are made of.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "desired/owned_object.h"
#include "kube/client.h"
#include "kube/informer.h"

namespace pitcrew::gpu_operator {

using OwnedInformer = kube::Informer<desired::OwnedObject>;

// One watch per kind, of the objects with the inventory label only; ConfigMaps of the operator's
// namespace all, because policies refer to some of them.
class Inventory {
 public:
  Inventory(const std::shared_ptr<kube::Client>& client, std::string_view operator_namespace,
            const desired::OptionalKinds& served);

  struct Kind {
    const kube::ResourceKind* kind;
    std::unique_ptr<OwnedInformer> informer;
  };
  [[nodiscard]] std::vector<Kind>& kinds() { return kinds_; }
  [[nodiscard]] const std::vector<Kind>& kinds() const { return kinds_; }
  [[nodiscard]] const kube::Store<desired::OwnedObject>* StoreOf(
      const kube::ResourceKind& kind) const;

 private:
  std::vector<Kind> kinds_;
};

}  // namespace pitcrew::gpu_operator
