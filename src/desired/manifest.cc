#include "desired/manifest.h"

namespace pitcrew::desired {

Object* FindObject(std::vector<Object>& objects, std::string_view kind, std::string_view name) {
  for (Object& object : objects) {
    if (codec::FindString(object, {"kind"}) != kind) continue;
    if (name.empty() || codec::FindString(object, {"metadata", "name"}) == name) return &object;
  }
  return nullptr;
}

}  // namespace pitcrew::desired
