#include "kubevirt/record.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/resource.h"

namespace pitcrew::kubevirt {
namespace {

using codec::Json;

constexpr const char* kMade = "made";

base::Status ReadEntries(const Json& value, List list, Record& record) {
  const Json* entries = codec::Find(value, {NameOf(list)});
  if (entries == nullptr) return {};
  const auto is_text = [](const Json& entry) { return entry.is_string(); };
  if (!entries->is_object() || !std::ranges::all_of(*entries, is_text)) {
    return base::Fail(base::Invalid("RecordUnreadable", std::string(NameOf(list))));
  }
  for (const auto& [selector, resource] : entries->items()) {
    record.entries.push_back({.list = list,
                              .selector = selector,
                              .resource = resource.get<std::string>(),
                              .external = true});
  }
  return {};
}

base::Result<Record> Parse(const std::string& text) {
  TRY_ASSIGN(const Json value, codec::ParseJson(text, "the annotation"));
  Record record;
  for (const List list : {List::kPci, List::kMediated}) TRY(ReadEntries(value, list, record));
  for (const Json& name : value.value(kMade, Json::array())) {
    if (name.is_string()) record.made.insert(name.get<std::string>());
  }
  return record;
}

}  // namespace

base::Result<Record> ReadRecord(const Json& object, std::string_view annotation) {
  const Json* text = codec::Find(object, {"metadata", "annotations", annotation});
  if (text == nullptr) return Record{};
  auto record = Parse(text->is_string() ? text->get<std::string>() : "");
  if (record) return record;
  return base::Fail(base::Invalid(
      "RecordUnreadable",
      fmt::format("the annotation {} of {}, which says which permitted devices are the operator's, "
                  "cannot be read: take it away, and they are a person's from then on ({})",
                  annotation, kube::KeyOf(object).ToString(), record.error().message)));
}

std::string ToText(const Record& record) {
  if (record.entries.empty()) return "";
  Json value = Json::object();
  for (const Entry& entry : record.entries) {
    value[std::string(NameOf(entry.list))][entry.selector] = entry.resource;
  }
  if (!record.made.empty()) value[kMade] = record.made;
  return codec::ToJsonText(value);
}

}  // namespace pitcrew::kubevirt
