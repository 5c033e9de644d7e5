#include "codec/json.h"

#include <fmt/format.h>

template class nlohmann::basic_json<>;

namespace pitcrew::codec {

base::Result<Json> ParseJson(std::string_view text, std::string_view source) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& problem) {
    return base::Fail(base::Invalid("InvalidJson", fmt::format("{}: {}", source, problem.what())));
  }
}

std::string ToJsonText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ToPrettyJsonText(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

const Json* Find(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* at = &value;
  for (const auto name : path) {
    if (!at->is_object()) return nullptr;
    const auto member = at->find(name);
    if (member == at->end()) return nullptr;
    at = &*member;
  }
  return at;
}

std::string FindString(const Json& value, std::initializer_list<std::string_view> path,
                       std::string_view fallback) {
  const Json* found = Find(value, path);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string(fallback);
}

void ApplyMergePatch(Json& target, const Json& patch) { target.merge_patch(patch); }

}  // namespace pitcrew::codec
