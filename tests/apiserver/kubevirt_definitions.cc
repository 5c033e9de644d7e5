#include "apiserver/kubevirt_definitions.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "codec/yaml.h"
#include "loopback/child_process.h"
#include "tests/support/eventually.h"

namespace pitcrew::testing {

base::Result<std::vector<codec::Json>> KubeVirtDefinitions() {
  std::filesystem::path newest;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(ProgramsFolder(), ignored)) {
    const auto file = entry.path() / "definitions.yaml";
    if (entry.path().filename().string().starts_with("kubevirt-") &&
        std::filesystem::exists(file, ignored)) {
      newest = std::max(newest, file);
    }
  }
  if (newest.empty()) {
    return base::Fail(base::NotFound("DefinitionsMissing", "KubeVirt's definitions are not below " +
                                                               ProgramsFolder().string() +
                                                               "; make programs makes them"));
  }
  TRY_ASSIGN(const std::string text, base::ReadFile(newest.string()));
  return codec::ParseYamlStream(text, newest.string());
}

base::Status DefineKubeVirt(kube::Client& client) {
  TRY_ASSIGN(const auto definitions, KubeVirtDefinitions());
  for (const codec::Json& definition : definitions) {
    TRY(client.Apply(kube::kCustomResourceDefinitions, definition,
                     {.field_manager = "test", .subresource = {}}));
  }
  for (const codec::Json& definition : definitions) {
    const auto plural = codec::FindString(definition, {"spec", "names", "plural"});
    const auto kind = codec::FindString(definition, {"spec", "names", "kind"});
    const kube::ResourceKind resource{"kubevirt.io", "v1", plural, kind};
    if (!test_support::Eventually([&] { return client.List(resource, "").has_value(); })) {
      return base::Fail(base::Unavailable("NotServed", kind + " is not served"));
    }
  }
  return {};
}

}  // namespace pitcrew::testing
