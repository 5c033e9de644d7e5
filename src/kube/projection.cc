#include "kube/projection.h"

#include <fmt/format.h>

namespace pitcrew::kube {
namespace {

namespace ondemand = simdjson::ondemand;

// A parser keeps buffers in proportion to the longest text it has read; longer texts get their own.
constexpr std::size_t kLongestKept = 1U << 20U;

base::Error Unreadable(std::string_view problem) {
  return base::Invalid("UnreadableObject", fmt::format("unreadable object: {}", problem));
}

base::Status ReadWith(ondemand::parser& parser, std::string_view raw,
                      const std::function<simdjson::error_code(ondemand::object&)>& read) {
  try {
    const simdjson::padded_string_view text(raw.data(), raw.size(), raw.size() + kReadablePadding);
    ondemand::document document;
    if (const auto error = parser.iterate(text).get(document)) {
      return base::Fail(Unreadable(simdjson::error_message(error)));
    }
    ondemand::object object;
    if (const auto error = document.get_object().get(object)) {
      return base::Fail(Unreadable(simdjson::error_message(error)));
    }
    if (const auto error = read(object)) {
      return base::Fail(Unreadable(simdjson::error_message(error)));
    }
    return {};
  } catch (const std::exception& problem) {
    return base::Fail(Unreadable(problem.what()));
  }
}

simdjson::error_code ReadText(ondemand::value value, std::string& text) {
  std::string_view view;
  if (const auto error = value.get(view)) return error;
  text = view;
  return simdjson::SUCCESS;
}

simdjson::error_code ReadMetadata(ondemand::object& object, ObjectMeta& meta) {
  ondemand::object metadata;
  if (const auto error = object["metadata"].get(metadata)) return error;
  for (auto field : metadata) {
    std::string_view key;
    if (const auto error = field.unescaped_key().get(key)) return error;
    std::string* text = nullptr;
    if (key == "name") text = &meta.key.name;
    if (key == "namespace") text = &meta.key.namespace_name;
    if (key == "uid") text = &meta.uid;
    if (key == "resourceVersion") text = &meta.resource_version;
    ondemand::value value;
    if (text == nullptr && key != "deletionTimestamp") continue;
    if (const auto error = field.value().get(value)) return error;
    if (text == nullptr) {
      meta.deleting = !value.is_null();
    } else if (const auto error = ReadText(value, *text)) {
      return error;
    }
  }
  return simdjson::SUCCESS;
}

// The page's parts, with objects not yet looked into.
simdjson::error_code CutPage(ondemand::object& list, RawPage& page) {
  for (auto field : list) {
    std::string_view key;
    if (const auto error = field.unescaped_key().get(key)) return error;
    if (key == "metadata") {
      ondemand::object metadata;
      if (const auto error = field.value().get(metadata)) return error;
      for (auto member : metadata) {
        std::string_view name;
        if (const auto error = member.unescaped_key().get(name)) return error;
        if (name != "resourceVersion" && name != "continue") continue;
        ondemand::value value;
        if (const auto error = member.value().get(value)) return error;
        if (const auto error =
                ReadText(value, name == "continue" ? page.continue_token : page.resource_version)) {
          return error;
        }
      }
    } else if (key == "items") {
      ondemand::value items;
      if (const auto error = field.value().get(items)) return error;
      if (items.is_null()) continue;
      ondemand::array array;
      if (const auto error = items.get(array)) return error;
      for (auto item : array) {
        ondemand::object object;
        if (const auto error = item.get(object)) return error;
        std::string_view raw;
        if (const auto error = object.raw_json().get(raw)) return error;
        page.objects.emplace_back(ObjectMeta{}, raw);
      }
    }
  }
  return simdjson::SUCCESS;
}

}  // namespace

base::Status ReadOnDemand(
    std::string_view raw,
    const std::function<simdjson::error_code(simdjson::ondemand::object&)>& read) {
  thread_local ondemand::parser kept;
  thread_local bool busy = false;  // `read` reads another text
  if (busy || raw.size() > kLongestKept) {
    ondemand::parser own;
    return ReadWith(own, raw, read);
  }
  busy = true;
  auto result = ReadWith(kept, raw, read);
  busy = false;
  return result;
}

base::Result<ObjectMeta> ReadMeta(std::string_view raw) {
  ObjectMeta meta;
  TRY(ReadOnDemand(raw, [&](ondemand::object& object) { return ReadMetadata(object, meta); }));
  if (meta.key.name.empty()) return base::Fail(Unreadable("no metadata.name"));
  return meta;
}

base::Result<std::string> ReadResourceVersion(std::string_view raw) {
  ObjectMeta meta;
  // Of answers to patches, on as many threads as there are calls in flight: a kept reader on each
  // would hold tens of kilobytes.
  ondemand::parser parser;
  TRY(ReadWith(parser, raw, [&](ondemand::object& object) { return ReadMetadata(object, meta); }));
  if (meta.resource_version.empty()) return base::Fail(Unreadable("no metadata.resourceVersion"));
  return std::move(meta.resource_version);
}

base::Result<RawPage> ReadPage(std::string_view page) {
  RawPage result;
  {
    ondemand::parser parser;  // its buffers go away with the page
    TRY(ReadWith(parser, page, [&](ondemand::object& list) { return CutPage(list, result); }));
  }
  for (auto& [meta, raw] : result.objects) {
    TRY_ASSIGN(meta, ReadMeta(raw));
  }
  if (result.resource_version.empty()) {
    return base::Fail(Unreadable("the list has no metadata.resourceVersion"));
  }
  return result;
}

}  // namespace pitcrew::kube
