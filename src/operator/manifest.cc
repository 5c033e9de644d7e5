#include "operator/manifest.h"

#include <fmt/format.h>

#include "codec/yaml.h"

namespace pitcrew::gpu_operator {

base::Result<std::vector<Object>> LoadManifests(std::string_view state, bool openshift) {
  std::vector<Object> objects;
  for (const EmbeddedManifest& manifest : EmbeddedManifests()) {
    if (manifest.state != state) continue;
    if (!openshift && manifest.file.contains("openshift")) continue;
    TRY_ASSIGN(Object object,
               codec::ParseYaml(manifest.text, fmt::format("{}/{}", state, manifest.file)));
    if (codec::FindString(object, {"kind"}).empty()) {
      return base::Fail(base::Internal(
          "ManifestWithoutKind", fmt::format("{}/{} has no kind", state, manifest.file)));
    }
    objects.push_back(std::move(object));
  }
  return objects;
}

Object* FindObject(std::vector<Object>& objects, std::string_view kind, std::string_view name) {
  for (Object& object : objects) {
    if (codec::FindString(object, {"kind"}) != kind) continue;
    if (name.empty() || codec::FindString(object, {"metadata", "name"}) == name) return &object;
  }
  return nullptr;
}

}  // namespace pitcrew::gpu_operator
