#include "kube/watcher.h"

#include <simdjson.h>

#include "base/overload.h"
#include "kube/projection.h"
#include "kube/request.h"

namespace pitcrew::kube {
namespace {

WatchStep Stay(const WatchState& state) { return {.next = state}; }

// After an error: from the beginning when the version is gone, else from where we are.
WatchStep Recover(const base::Error& error, WatchState resume) {
  if (IsDesynchronized(error)) return {.next = Empty{}, .back_off = true};
  return {.next = std::move(resume), .back_off = true};
}

WatchStep OnPage(const WatchState& state, const PageArrived& page) {
  const bool first = std::holds_alternative<Empty>(state);
  if (!first && !std::holds_alternative<Listing>(state)) return Stay(state);
  WatchStep step{
      .next = Listing{page.continue_token}, .action = StoreAction::kAddPage, .begin_list = first};
  if (page.continue_token.empty()) {
    step.next = Listed{page.resource_version};
    step.action = StoreAction::kAddPageAndCommit;
  }
  return step;
}

WatchStep OnEvent(const WatchState& state, const WatchEventArrived& event) {
  using Type = WatchEventArrived::Type;
  const auto* watching = std::get_if<Watching>(&state);
  if (watching == nullptr) return Stay(state);
  if (event.type == Type::kError) {
    return Recover(event.error, Listed{watching->resource_version});
  }
  WatchStep step{.next = Watching{event.resource_version, true}, .reset_back_off = true};
  if (event.type == Type::kDeleted) {
    step.action = StoreAction::kRemove;
  } else if (event.type != Type::kBookmark) {
    step.action = StoreAction::kUpsert;
  }
  return step;
}

WatchStep OnEnd(const WatchState& state, const WatchEnded& end) {
  const auto* watching = std::get_if<Watching>(&state);
  if (watching == nullptr) return Stay(state);
  const Listed resume{watching->resource_version};
  if (end.error) return Recover(*end.error, resume);
  // A server that ends every watch at once must not be asked in a tight loop.
  return {.next = resume, .back_off = !watching->fruitful};
}

WatchEventArrived::Type TypeFromText(std::string_view text) {
  using Type = WatchEventArrived::Type;
  if (text == "ADDED") return Type::kAdded;
  if (text == "MODIFIED") return Type::kModified;
  if (text == "DELETED") return Type::kDeleted;
  if (text == "BOOKMARK") return Type::kBookmark;
  return Type::kError;
}

}  // namespace

bool IsDesynchronized(const base::Error& error) {
  return error.code == base::Code::kGone || error.reason == "Expired" ||
         error.reason == "ResourceVersionTooLarge" ||
         // A version that this server has never given out.
         (error.code == base::Code::kInvalid && error.reason != "UnreadableObject");
}

WatchStep Advance(const WatchState& state, const WatchInput& input) {
  return std::visit(
      base::Overload{[&](const PageArrived& page) { return OnPage(state, page); },
                     [&](const ListFailed& failure) {
                       if (std::holds_alternative<Empty>(state)) {
                         return WatchStep{.next = state, .back_off = true};
                       }
                       if (!std::holds_alternative<Listing>(state)) return Stay(state);
                       // The same page again, unless its token has expired.
                       return Recover(failure.error, state);
                     },
                     [&](const WatchOpened&) {
                       const auto* listed = std::get_if<Listed>(&state);
                       if (listed == nullptr) return Stay(state);
                       return WatchStep{.next = Watching{listed->resource_version}};
                     },
                     [&](const WatchRefused& refusal) {
                       if (!std::holds_alternative<Listed>(state)) return Stay(state);
                       return Recover(refusal.error, state);
                     },
                     [&](const WatchEventArrived& event) { return OnEvent(state, event); },
                     [&](const WatchEnded& end) { return OnEnd(state, end); }},
      input);
}

base::Result<DecodedEvent> DecodeEvent(std::string_view line) {
  DecodedEvent decoded;
  // A copy: the reader's own buffers, which its texts stand in, may end with the reading.
  std::string type;
  TRY(ReadOnDemand(line, [&](simdjson::ondemand::object& event) {
    std::string_view text;
    if (const auto error = event["type"].get(text)) return error;
    type = text;
    simdjson::ondemand::object object;
    if (const auto error = event["object"].get(object)) return error;
    return object.raw_json().get(decoded.object);
  }));
  decoded.event.type = TypeFromText(type);
  if (decoded.event.type == WatchEventArrived::Type::kError) {
    decoded.event.error = ErrorFromStatusObject(decoded.object, "watch");
    return decoded;
  }
  if (decoded.event.type == WatchEventArrived::Type::kBookmark) {
    TRY_ASSIGN(decoded.event.resource_version, ReadResourceVersion(decoded.object));
    return decoded;
  }
  TRY_ASSIGN(decoded.meta, ReadMeta(decoded.object));
  decoded.event.resource_version = decoded.meta.resource_version;
  return decoded;
}

}  // namespace pitcrew::kube
