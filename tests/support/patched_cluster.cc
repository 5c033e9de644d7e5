#include "tests/support/patched_cluster.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "base/file.h"
#include "codec/yaml.h"

namespace pitcrew::test_support {
namespace {

using codec::Json;

std::string IdentityOf(const Json& object) {
  const std::string name_space = codec::FindString(object, {"metadata", "namespace"});
  return codec::FindString(object, {"kind"}) + " " + (name_space.empty() ? "" : name_space + "/") +
         codec::FindString(object, {"metadata", "name"});
}

}  // namespace

std::vector<Json> ReadStream(const std::filesystem::path& file) {
  const auto text = base::ReadFile(file);
  const auto stream = text ? codec::ParseYamlStream(*text, file.string())
                           : base::Result<std::vector<Json>>(base::Fail(text.error()));
  if (!stream) {
    ADD_FAILURE() << stream.error().ToString();
    std::exit(1);
  }
  return *stream;
}

std::vector<Json> PatchedObjects(const std::filesystem::path& base,
                                 const std::filesystem::path& patch) {
  std::map<std::string, Json> objects;
  for (Json& object : ReadStream(base)) {
    const std::string identity = IdentityOf(object);
    objects[identity] = std::move(object);
  }
  for (const Json& change : patch.empty() ? std::vector<Json>() : ReadStream(patch)) {
    if (codec::FindString(change, {"kind"}) == "Remove") {
      for (const Json& identity : change["objects"]) {
        EXPECT_EQ(objects.erase(identity.get<std::string>()), 1U) << identity;
      }
    } else {
      codec::ApplyMergePatch(objects[IdentityOf(change)], change);
    }
  }
  std::vector<Json> list;
  for (auto& [identity, object] : objects) list.push_back(std::move(object));
  return list;
}

}  // namespace pitcrew::test_support
