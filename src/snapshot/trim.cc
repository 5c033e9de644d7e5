#include "snapshot/trim.h"

namespace pitcrew::snapshot {

void Trim(codec::Json& object) {
  const std::string kind = codec::FindString(object, {"kind"});
  if (kind != "Node" && kind != "Pod") return;
  if (auto metadata = object.find("metadata"); metadata != object.end() && metadata->is_object()) {
    metadata->erase("managedFields");
  }
  if (kind != "Node") return;
  if (auto status = object.find("status"); status != object.end() && status->is_object()) {
    for (const char* member : {"images", "volumesInUse", "volumesAttached"}) status->erase(member);
  }
}

}  // namespace pitcrew::snapshot
