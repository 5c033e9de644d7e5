#include "operator/definitions/definitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "api/definition.h"
#include "base/strings.h"
#include "codec/yaml.h"
#include "desired/cluster_kinds.h"
#include "desired/owned_object.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

// How many missing fields a message names.
constexpr std::size_t kNamedFields = 8;

// Path of a field to its rules: type, default, enumeration and so on, without the fields below it.
using Fields = std::map<std::string, Json>;

void AddFields(const Json& schema, const std::string& path, Fields& fields) {
  if (!schema.is_object()) return;
  Json rules = Json::object();
  for (const auto& [key, value] : schema.items()) {
    if (key == "properties" && value.is_object()) {
      for (const auto& [name, property] : value.items()) {
        AddFields(property, path.empty() ? name : path + "." + name, fields);
      }
    } else if (key == "items") {
      AddFields(value, path + "[]", fields);
    } else if (key == "additionalProperties" && value.is_object()) {
      AddFields(value, path + ".*", fields);
    } else if (key != "description") {
      rules[key] = value;
    }
  }
  if (!path.empty()) fields.emplace(path, std::move(rules));
}

const Json* VersionOf(const Json& definition, const std::string& name) {
  const Json* versions = codec::Find(definition, {"spec", "versions"});
  if (versions == nullptr || !versions->is_array()) return nullptr;
  for (const Json& version : *versions) {
    if (codec::FindString(version, {"name"}) == name) return &version;
  }
  return nullptr;
}

Fields FieldsOf(const Json* version) {
  Fields fields;
  if (version == nullptr) return fields;
  if (const Json* schema = codec::Find(*version, {"schema", "openAPIV3Schema"})) {
    AddFields(*schema, "", fields);
  }
  return fields;
}

// Fields of `a` that `b` lacks; of a whole missing block only the block.
std::vector<std::string> Lacking(const Fields& a, const Fields& b) {
  std::vector<std::string> lacking;
  for (const auto& [path, rules] : a) {
    if (b.contains(path)) continue;
    const auto above = [&](const std::string& known) {
      return path.starts_with(known) && (path[known.size()] == '.' || path[known.size()] == '[');
    };
    if (std::ranges::none_of(lacking, above)) lacking.push_back(path);
  }
  return lacking;
}

bool SameButForSchema(const Json& a, const Json& b) {
  const auto without_schema = [](Json version) {
    version.erase("schema");
    return version;
  };
  return without_schema(a) == without_schema(b);
}

std::string NameOfDefinition(const Json& definition) {
  return codec::FindString(definition, {"metadata", "name"});
}

}  // namespace

SchemaComparison CompareDefinitions(const Json& served, const Json& ours) {
  SchemaComparison comparison;
  bool extra = false;
  bool changed = false;
  const Json* versions = codec::Find(ours, {"spec", "versions"});
  for (const Json& version : versions != nullptr ? *versions : Json::array()) {
    const Json* theirs = VersionOf(served, codec::FindString(version, {"name"}));
    const Fields own_fields = FieldsOf(&version);
    const Fields served_fields = FieldsOf(theirs);
    const auto missing = Lacking(own_fields, served_fields);
    comparison.missing.insert(comparison.missing.end(), missing.begin(), missing.end());
    extra = extra || !Lacking(served_fields, own_fields).empty();
    changed = changed || theirs == nullptr || !SameButForSchema(*theirs, version) ||
              own_fields != served_fields;
  }
  if (!comparison.missing.empty()) {
    comparison.state = extra ? SchemaState::kDiverged : SchemaState::kOlder;
  } else if (extra) {
    comparison.state = SchemaState::kNewer;
  } else if (changed) {
    comparison.state = SchemaState::kOlder;
  }
  return comparison;
}

std::string DescribeOutdated(std::string_view name, const SchemaComparison& comparison) {
  if (comparison.missing.empty()) return "";
  std::vector<std::string> named(
      comparison.missing.begin(),
      comparison.missing.begin() +
          static_cast<std::ptrdiff_t>(std::min(kNamedFields, comparison.missing.size())));
  if (comparison.missing.size() > kNamedFields) {
    named.push_back(fmt::format("{} more", comparison.missing.size() - kNamedFields));
  }
  return fmt::format(
      "the CustomResourceDefinition {} is of another release: what a policy says under {} is "
      "dropped by the server. Bring it up to date: pitcrew manage-crds apply",
      name, base::Join(named, ", "));
}

base::Result<std::vector<Json>> OwnDefinitions() {
  std::vector<Json> definitions;
  for (const api::EmbeddedDefinition& embedded : api::EmbeddedDefinitions()) {
    TRY_ASSIGN(Json definition, codec::ParseYaml(embedded.text, std::string(embedded.file)));
    definitions.push_back(std::move(definition));
  }
  return definitions;
}

std::string_view ToString(DefinitionChange change) {
  switch (change) {
    case DefinitionChange::kNone:
      return "unchanged";
    case DefinitionChange::kInstalled:
      return "installed";
    case DefinitionChange::kUpgraded:
      return "upgraded";
    case DefinitionChange::kLeftNewer:
      return "left as it is: it is of a newer release";
    case DefinitionChange::kLeftDiverged:
      return "left as it is: it has fields that this release lacks, and lacks some that it has";
  }
  return "";
}

base::Result<DefinitionChange> EnsureDefinition(kube::Client& client, const Json& definition,
                                                const DefinitionOptions& options,
                                                const io::StopToken& stop) {
  const std::string name = NameOfDefinition(definition);
  const auto served =
      client.Get(kube::kCustomResourceDefinitions, {.namespace_name = "", .name = name}, stop);
  if (!served && served.error().code != base::Code::kNotFound) {
    return base::Fail(served.error().Within("read CustomResourceDefinition " + name));
  }
  if (served) {
    const SchemaState state = CompareDefinitions(*served, definition).state;
    if (state == SchemaState::kSame) return DefinitionChange::kNone;
    if (state == SchemaState::kNewer && !options.force) return DefinitionChange::kLeftNewer;
    if (state == SchemaState::kDiverged && !options.force && !options.replace_diverged) {
      return DefinitionChange::kLeftDiverged;
    }
  }
  const auto applied =
      client.Apply(kube::kCustomResourceDefinitions, definition,
                   {.field_manager = std::string(desired::kFieldManager), .force = true}, stop);
  if (!applied) {
    return base::Fail(applied.error().Within("apply CustomResourceDefinition " + name));
  }
  return served ? DefinitionChange::kUpgraded : DefinitionChange::kInstalled;
}

base::Status AwaitEstablished(const std::shared_ptr<kube::Client>& client, const std::string& name,
                              std::chrono::milliseconds timeout, const io::StopToken& stop) {
  const base::Status status = kube::Await<bool>(
      client, kube::kCustomResourceDefinitions,
      kube::ProjectJson<bool>(
          [](const Json& object) -> base::Result<bool> { return desired::IsEstablished(object); }),
      {.field_selector = "metadata.name=" + name},
      [&](const kube::Store<bool>& store) -> base::Result<bool> {
        const auto found = store.Find({.namespace_name = "", .name = name});
        return found.is_present() && **found.value();
      },
      stop, std::chrono::steady_clock::now() + timeout);
  if (status) return {};
  return base::Fail(status.error().Within(name + " is not served"));
}

base::Result<bool> RemoveDefinition(const std::shared_ptr<kube::Client>& client,
                                    const std::string& name, std::chrono::milliseconds patience,
                                    const io::StopToken& stop) {
  const kube::ObjectKey key{.namespace_name = "", .name = name};
  const auto absent_or = [&](const base::Error& error) -> base::Result<bool> {
    if (error.code == base::Code::kNotFound) return true;
    return base::Fail(error.Within("delete CustomResourceDefinition " + name));
  };
  const auto marked =
      client->Patch(kube::kCustomResourceDefinitions, key, kube::PatchType::kMerge,
                    {{"metadata", {{"annotations", {{std::string(kRemovedAnnotation), "true"}}}}}},
                    {.field_manager = std::string(desired::kFieldManager)}, stop);
  if (!marked) return absent_or(marked.error());
  const std::string uid = codec::FindString(*marked, {"metadata", "uid"});
  const auto deleted = client->Delete(kube::kCustomResourceDefinitions, key, {.uid = uid}, stop);
  if (!deleted) return absent_or(deleted.error());
  const base::Status gone = kube::AwaitGone(client, kube::kCustomResourceDefinitions, {uid},
                                            {.field_selector = "metadata.name=" + name}, stop,
                                            std::chrono::steady_clock::now() + patience);
  if (gone) return true;
  if (gone.error().code == base::Code::kTimeout) return false;
  return base::Fail(gone.error().Within("wait until " + name + " is gone"));
}

}  // namespace pitcrew::gpu_operator
