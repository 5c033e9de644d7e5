#include "api/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>
#include <regex>

#include "api/definition.h"
#include "base/strings.h"
#include "codec/yaml.h"

namespace pitcrew::api {
namespace {

using codec::Json;

void Report(std::vector<FieldProblem>& problems, const std::string& path, std::string message) {
  problems.push_back({.path = path, .message = std::move(message)});
}

std::string Quoted(const Json& value) { return codec::ToJsonText(value); }

bool IsType(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return true;
}

// "a whole number", for messages.
std::string_view NameOfType(const std::string& type) {
  if (type == "object") return "an object";
  if (type == "array") return "a list";
  if (type == "string") return "a string";
  if (type == "boolean") return "true or false";
  if (type == "integer") return "a whole number";
  return "a number";
}

bool Flag(const Json& schema, const char* name) {
  const auto found = schema.find(name);
  return found != schema.end() && found->is_boolean() && found->get<bool>();
}

void CheckEnumeration(const Json& schema, const Json& value, const std::string& path,
                      std::vector<FieldProblem>& problems) {
  const auto allowed = schema.find("enum");
  if (allowed == schema.end() || std::ranges::find(*allowed, value) != allowed->end()) return;
  std::vector<std::string> texts;
  std::vector<std::string> words;
  for (const Json& each : *allowed) {
    texts.push_back(Quoted(each));
    if (each.is_string()) words.push_back(each.get<std::string>());
  }
  const std::string near = value.is_string() ? NearestWord(value.get<std::string>(), words) : "";
  Report(problems, path,
         fmt::format("is {}, must be one of {}{}", Quoted(value), base::Join(texts, ", "),
                     near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near)));
}

void CheckNumber(const Json& schema, const Json& value, const std::string& path,
                 std::vector<FieldProblem>& problems) {
  if (!value.is_number()) return;
  const auto minimum = schema.find("minimum");
  if (minimum != schema.end() && value.get<double>() < minimum->get<double>()) {
    Report(problems, path,
           fmt::format("is {}, must be at least {}", Quoted(value), Quoted(*minimum)));
  }
  const auto maximum = schema.find("maximum");
  if (maximum != schema.end() && value.get<double>() > maximum->get<double>()) {
    Report(problems, path,
           fmt::format("is {}, must be at most {}", Quoted(value), Quoted(*maximum)));
  }
  if (schema.value("format", "") == "int32" && value.is_number_integer() &&
      (value.get<std::int64_t>() > std::numeric_limits<std::int32_t>::max() ||
       value.get<std::int64_t>() < std::numeric_limits<std::int32_t>::min())) {
    Report(problems, path, fmt::format("is {}, must fit into 32 bits", Quoted(value)));
  }
}

void CheckText(const Json& schema, const Json& value, const std::string& path,
               std::vector<FieldProblem>& problems) {
  if (!value.is_string()) return;
  const auto& text = value.get_ref<const std::string&>();
  const auto shortest = schema.find("minLength");
  if (shortest != schema.end() && text.size() < shortest->get<std::size_t>()) {
    Report(problems, path, "must not be so short");
  }
  const auto longest = schema.find("maxLength");
  if (longest != schema.end() && text.size() > longest->get<std::size_t>()) {
    Report(problems, path, fmt::format("is longer than {} characters", Quoted(*longest)));
  }
  const auto pattern = schema.find("pattern");
  if (pattern == schema.end()) return;
  try {
    if (std::regex_search(text, std::regex(pattern->get<std::string>()))) return;
  } catch (const std::regex_error&) {
    return;  // a form of pattern that only the API server knows: it will look
  }
  Report(problems, path,
         fmt::format("is {}, must match {}", Quoted(value), pattern->get<std::string>()));
}

void CheckObject(const Json& schema, const Json& value, const std::string& path,
                 std::vector<FieldProblem>& problems) {
  static const Json kNone = Json::object();
  const auto listed = schema.find("properties");
  const Json& properties = listed == schema.end() ? kNone : *listed;
  const auto more = schema.find("additionalProperties");
  const bool open = more != schema.end() || Flag(schema, "x-kubernetes-preserve-unknown-fields") ||
                    listed == schema.end();
  std::vector<std::string> names;
  for (const auto& [name, property] : properties.items()) names.push_back(name);
  for (const auto& [name, member] : value.items()) {
    if (member.is_null()) continue;
    const std::string inside = fmt::format("{}.{}", path, name);
    if (const auto property = properties.find(name); property != properties.end()) {
      CheckAgainstSchema(*property, member, inside, problems);
    } else if (!open) {
      const std::string near = NearestWord(name, names);
      Report(problems, inside,
             near.empty() ? "there is no such field"
                          : fmt::format("there is no such field; did you mean \"{}\"?", near));
    } else if (more != schema.end() && more->is_object()) {
      CheckAgainstSchema(*more, member, inside, problems);
    }
  }
  const auto required = schema.find("required");
  if (required == schema.end()) return;
  for (const Json& name : *required) {
    const auto found = value.find(name.get<std::string>());
    const bool has_default =
        codec::Find(properties, {name.get_ref<const std::string&>(), "default"}) != nullptr;
    if ((found == value.end() || found->is_null()) && !has_default) {
      Report(problems, fmt::format("{}.{}", path, name.get<std::string>()), "is required");
    }
  }
}

// Letters that must be changed, added or dropped to come from one word to the other.
std::size_t Distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// Of spec, in the embedded definition of that name.
Json SchemaOf(std::string_view name) {
  for (const EmbeddedDefinition& definition : EmbeddedDefinitions()) {
    const auto parsed = codec::ParseYaml(definition.text, definition.file);
    if (!parsed || codec::FindString(*parsed, {"metadata", "name"}) != name) continue;
    for (const Json& version : (*parsed)["spec"]["versions"]) {
      const Json* spec = codec::Find(version, {"schema", "openAPIV3Schema", "properties", "spec"});
      if (spec != nullptr) return *spec;
    }
  }
  return {};
}

std::vector<FieldProblem> CheckSpec(const Json& schema, const Json& object) {
  std::vector<FieldProblem> problems;
  const Json* spec = codec::Find(object, {"spec"});
  // The server asks for a spec; its required blocks are missing then, too.
  static const Json kEmpty = Json::object();
  CheckAgainstSchema(schema, spec == nullptr || spec->is_null() ? kEmpty : *spec, "spec", problems);
  return problems;
}

// A field's value, with its default; null where there is neither.
Json ValueOf(const Json& object, const std::string& name, const Json& property) {
  const Json* value = codec::Find(object, {"spec", name});
  if (value != nullptr && !value->is_null()) return *value;
  const auto by_default = property.find("default");
  return by_default == property.end() ? Json() : *by_default;
}

// Rules by which a field of spec stays as it is. As on the server, one that was left out before, or
// is now, follows none.
void CheckChange(const Json& schema, const Json& stored, const Json& object,
                 std::vector<FieldProblem>& problems) {
  const auto properties = schema.find("properties");
  if (properties == schema.end()) return;
  for (const auto& [name, property] : properties->items()) {
    const auto rules = property.find("x-kubernetes-validations");
    if (rules == property.end()) continue;
    const Json before = ValueOf(stored, name, property);
    const Json after = ValueOf(object, name, property);
    if (before.is_null() || after.is_null() || before == after) continue;
    for (const Json& rule : *rules) {
      if (codec::FindString(rule, {"rule"}) != "self == oldSelf") continue;
      Report(problems, "spec." + name,
             fmt::format("is {} in the cluster and {}", Quoted(before),
                         codec::FindString(rule, {"message"})));
    }
  }
}

}  // namespace

std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string small = base::ToLower(word);
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::size_t distance = Distance(small, base::ToLower(candidate));
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  // A third of the letters may be wrong; beyond that it is a guess.
  return best_distance <= std::max<std::size_t>(1, word.size() / 3) ? best : "";
}

void CheckAgainstSchema(const Json& schema, const Json& value, const std::string& path,
                        std::vector<FieldProblem>& problems) {
  if (!schema.is_object() || value.is_null()) return;
  if (Flag(schema, "x-kubernetes-int-or-string")) {
    if (!value.is_string() && !value.is_number_integer()) {
      Report(problems, path, "must be a string or a whole number");
    } else {
      CheckText(schema, value, path, problems);
    }
    return;
  }
  const std::string type = schema.value("type", "");
  if (!IsType(value, type)) {
    Report(
        problems, path,
        fmt::format("is {}, must be {}", value.is_structured() ? value.type_name() : Quoted(value),
                    NameOfType(type)));
    return;
  }
  CheckEnumeration(schema, value, path, problems);
  CheckNumber(schema, value, path, problems);
  CheckText(schema, value, path, problems);
  if (value.is_object()) CheckObject(schema, value, path, problems);
  if (value.is_array()) {
    const auto items = schema.find("items");
    std::size_t index = 0;
    for (const Json& item : value) {
      const std::string inside = fmt::format("{}[{}]", path, index++);
      if (items != schema.end()) CheckAgainstSchema(*items, item, inside, problems);
    }
  }
}

std::vector<FieldProblem> CheckClusterPolicy(const Json& object) {
  static const Json kSchema = SchemaOf("clusterpolicies.nvidia.com");
  return CheckSpec(kSchema, object);
}

std::vector<FieldProblem> CheckNvidiaDriver(const Json& object, const Json* stored) {
  static const Json kSchema = SchemaOf("nvidiadrivers.nvidia.com");
  std::vector<FieldProblem> problems = CheckSpec(kSchema, object);
  if (stored != nullptr) CheckChange(kSchema, *stored, object, problems);
  return problems;
}

}  // namespace pitcrew::api
