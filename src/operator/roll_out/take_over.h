// Taking over what upstream's operator made: its objects carry their owner's reference, those of a
// policy no inventory label, and their fields belong to its update calls (operator-behaviour.md
// sections 6, 10 and 14). Without more, an apply would leave every field in place that it does not
// mention.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "desired/removal.h"
#include "io/stop.h"
#include "kube/client.h"
#include "kube/resource.h"

namespace pitcrew::gpu_operator {

// The objects of upstream's operator that the cluster has, listed once per kind. Used by one thread
// at a time.
class Predecessor {
 public:
  // `owner_uid`: only what this object controls is ever deleted.
  Predecessor(std::shared_ptr<kube::Client> client, std::string operator_namespace,
              std::string owner_uid, const desired::OperandTable& operands);

  // Lists the objects of `kind`, once; after an error again at the next call. Nothing of this kind
  // may be applied or deleted before it succeeded.
  base::Status Look(const kube::ResourceKind& kind, const io::StopToken& stop);

  // Makes the fields of upstream's manager ours, if Look has found such an object. To be called
  // right before the first apply: everything but the ownership stays as it is.
  base::Status TakeOver(const kube::ResourceKind& kind, const kube::ObjectKey& key,
                        const io::StopToken& stop);

  // Objects of the owner that Look found, as they stood then: without inventory label, so that
  // their names tell the state. `kind` must outlive the result.
  [[nodiscard]] std::vector<desired::StandingObject> Leftovers(
      const kube::ResourceKind& kind) const;
  // Forgets an object that Look found: it is the operator's now, or gone.
  void Forget(const kube::ResourceKind& kind, const kube::ObjectKey& key);

 private:
  using Identity = std::pair<std::string, kube::ObjectKey>;  // plural and key

  std::shared_ptr<kube::Client> client_;
  std::string operator_namespace_;
  std::string owner_uid_;
  const desired::OperandTable& operands_;
  std::set<std::string> looked_;                       // plurals
  std::map<Identity, desired::StandingObject> found_;  // without inventory label
  std::set<Identity> labelled_;  // the owner's, with the label: made for a NVIDIADriver
};

}  // namespace pitcrew::gpu_operator
