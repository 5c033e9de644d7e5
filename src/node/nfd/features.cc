#include "node/nfd/features.h"

#include <fmt/format.h>

#include <string_view>

namespace pitcrew::node::nfd {
namespace {

base::Error Malformed(std::string_view where) {
  return base::Invalid(
      "MalformedNodeFeature",
      fmt::format("spec.features.{} is not of the shape that its schema tells", where));
}

base::Result<Attributes> TextMap(const codec::Json& json, std::string_view where) {
  if (!json.is_object()) return base::Fail(Malformed(where));
  Attributes map;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return base::Fail(Malformed(where));
    map.emplace(key, value.get<std::string>());
  }
  return map;
}

// Calls `take(name, elements)` for every feature of one kind; a missing or null kind has none.
template <class Take>
base::Status ForEachFeature(const codec::Json& features, const char* kind, Take take) {
  const auto* set = codec::Find(features, {kind});
  if (set == nullptr || set->is_null()) return {};
  if (!set->is_object()) return base::Fail(Malformed(kind));
  for (const auto& [name, feature] : set->items()) {
    const auto* elements = codec::Find(feature, {"elements"});
    if (elements == nullptr || elements->is_null()) continue;
    TRY(take(name, *elements));
  }
  return {};
}

}  // namespace

void Features::Merge(const Features& later) {
  for (const auto& [name, elements] : later.flags) {
    flags[name].insert(elements.begin(), elements.end());
  }
  for (const auto& [name, elements] : later.attributes) {
    for (const auto& [key, value] : elements) attributes[name][key] = value;
  }
  for (const auto& [name, elements] : later.instances) {
    auto& mine = instances[name];
    mine.insert(mine.end(), elements.begin(), elements.end());
  }
}

codec::Json ToJson(const Features& features) {
  codec::Json json = {{"flags", codec::Json::object()},
                      {"attributes", codec::Json::object()},
                      {"instances", codec::Json::object()}};
  for (const auto& [name, elements] : features.flags) {
    auto& target = json["flags"][name]["elements"] = codec::Json::object();
    for (const auto& element : elements) target[element] = codec::Json::object();
  }
  for (const auto& [name, elements] : features.attributes) {
    json["attributes"][name]["elements"] = elements;
  }
  for (const auto& [name, elements] : features.instances) {
    auto& target = json["instances"][name]["elements"] = codec::Json::array();
    for (const auto& element : elements) target.push_back({{"attributes", element}});
  }
  return json;
}

base::Result<Features> FeaturesFromJson(const codec::Json& json) {
  Features features;
  TRY(ForEachFeature(json, "flags",
                     [&](const std::string& name, const codec::Json& elements) -> base::Status {
                       if (!elements.is_object()) return base::Fail(Malformed("flags"));
                       auto& target = features.flags[name];
                       for (const auto& [key, unused] : elements.items()) target.insert(key);
                       return {};
                     }));
  TRY(ForEachFeature(json, "attributes",
                     [&](const std::string& name, const codec::Json& elements) -> base::Status {
                       TRY_ASSIGN(features.attributes[name], TextMap(elements, "attributes"));
                       return {};
                     }));
  TRY(ForEachFeature(json, "instances",
                     [&](const std::string& name, const codec::Json& elements) -> base::Status {
                       if (!elements.is_array()) return base::Fail(Malformed("instances"));
                       auto& target = features.instances[name];
                       for (const auto& element : elements) {
                         const auto* attributes = codec::Find(element, {"attributes"});
                         if (attributes == nullptr) return base::Fail(Malformed("instances"));
                         TRY_ASSIGN(auto map, TextMap(*attributes, "instances"));
                         target.push_back(std::move(map));
                       }
                       return {};
                     }));
  return features;
}

}  // namespace pitcrew::node::nfd
