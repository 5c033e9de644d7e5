// Ways to write a Projection (store.h).
#pragma once

#include <simdjson.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "kube/resource.h"
#include "kube/store.h"

namespace pitcrew::kube {

// Bytes that must be readable behind a text given to the readers below.
inline constexpr std::size_t kReadablePadding = simdjson::SIMDJSON_PADDING;

// A projection from a parsed value: easy to write, costs a parse of the whole object.
template <class View>
Projection<View> ProjectJson(std::function<base::Result<View>(const codec::Json&)> make) {
  return [make = std::move(make)](std::string_view raw) -> base::Result<View> {
    TRY_ASSIGN(const auto value, codec::ParseJson(raw, "object"));
    return make(value);
  };
}

// Reads one object with simdjson's on-demand reader, which touches only the fields asked for;
// `read` is called once with a simdjson::ondemand::object& and returns simdjson::error_code. Errors
// (also thrown ones) become kInvalid "UnreadableObject".
base::Status ReadOnDemand(
    std::string_view raw,
    const std::function<simdjson::error_code(simdjson::ondemand::object&)>& read);

// A projection from on-demand reading: make(object, view) fills the view. Fields that may be
// missing: NO_SUCH_FIELD of one lookup is no error of the object; ask with `object["x"].get(y)` and
// look.
template <class View>
Projection<View> ProjectOnDemand(
    std::function<simdjson::error_code(simdjson::ondemand::object&, View&)> fill) {
  return [fill = std::move(fill)](std::string_view raw) -> base::Result<View> {
    View view{};
    TRY(ReadOnDemand(raw, [&](simdjson::ondemand::object& object) { return fill(object, view); }));
    return view;
  };
}

// namespace, name, uid, resourceVersion and whether it is being deleted.
base::Result<ObjectMeta> ReadMeta(std::string_view raw);

// metadata.resourceVersion alone: bookmarks have no name.
base::Result<std::string> ReadResourceVersion(std::string_view raw);

// One page of a list, cut into its objects. The texts point into the page, which must be followed
// by kReadablePadding readable bytes.
struct RawPage {
  std::string resource_version{};
  std::string continue_token{};
  std::vector<std::pair<ObjectMeta, std::string_view>> objects{};
};
base::Result<RawPage> ReadPage(std::string_view page);

}  // namespace pitcrew::kube
