#include "desired/manifest.h"

#include <fmt/format.h>

#include "codec/yaml.h"

namespace pitcrew::desired {
namespace {

base::Result<Object> ParseManifest(const EmbeddedManifest& manifest) {
  const std::string source = fmt::format("{}/{}", manifest.state, manifest.file);
  TRY_ASSIGN(Object object, codec::ParseYaml(manifest.text, source));
  if (codec::FindString(object, {"kind"}).empty()) {
    return base::Fail(base::Internal("ManifestWithoutKind", fmt::format("{} has no kind", source)));
  }
  return object;
}

// Parsed once per process; the embedded text never changes.
const std::vector<base::Result<Object>>& ParsedManifests() {
  static const std::vector<base::Result<Object>> kParsed = [] {
    std::vector<base::Result<Object>> parsed;
    for (const EmbeddedManifest& manifest : EmbeddedManifests()) {
      parsed.push_back(ParseManifest(manifest));
    }
    return parsed;
  }();
  return kParsed;
}

}  // namespace

base::Result<std::vector<Object>> LoadManifests(std::string_view state, bool openshift) {
  std::vector<Object> objects;
  std::size_t index = 0;
  for (const EmbeddedManifest& manifest : EmbeddedManifests()) {
    const base::Result<Object>& parsed = ParsedManifests()[index++];
    if (manifest.state != state) continue;
    if (!openshift && manifest.file.contains("openshift")) continue;
    TRY(parsed);
    objects.push_back(*parsed);
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

}  // namespace pitcrew::desired
