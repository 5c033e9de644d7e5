#include "desired/cluster_kinds.h"

namespace pitcrew::desired {

using codec::Json;

bool IsEstablished(const Json& definition) {
  const Json* conditions = codec::Find(definition, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return false;
  for (const Json& condition : *conditions) {
    if (codec::FindString(condition, {"type"}) == "Established") {
      return codec::FindString(condition, {"status"}) == "True";
    }
  }
  return false;
}

}  // namespace pitcrew::desired
