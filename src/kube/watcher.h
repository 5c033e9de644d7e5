// The watch protocol as an explicit state machine: pure, so that every order of events can be
// tested without a server.
//
//     +-------+ first page +---------+ last page +--------+  opened  +----------+
//     | Empty |----------->| Listing |---------->| Listed |--------->| Watching |
//     +-------+            +---------+           +--------+          +----------+
//         ^                     |                 |    ^                |    |
//         |                     |                 |    |  ended, lost   |    |
//         |                     |                 |    +----------------+    |
//         |                     |                 |                          |
//         +---------------------+-----------------+--------------------------+
//           410, as status or as event: the page or version is no longer known
//
// A list of one page goes from Empty to Listed at once. A failed list or a refused watch stays
// where it is and is tried again, unless the version is gone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "base/result.h"
#include "kube/resource.h"

namespace pitcrew::kube {

// Nothing is known: list from the beginning.
struct Empty {
  bool operator==(const Empty&) const = default;
};
// Some pages of a list have come.
struct Listing {
  std::string continue_token{};
  bool operator==(const Listing&) const = default;
};
// Everything up to this version is known: open a watch from it.
struct Listed {
  std::string resource_version{};
  bool operator==(const Listed&) const = default;
};
// A watch is open; everything up to this version is known.
struct Watching {
  std::string resource_version{};
  bool fruitful = false;  // an event or bookmark has come
  bool operator==(const Watching&) const = default;
};
using WatchState = std::variant<Empty, Listing, Listed, Watching>;

// What happened.
struct PageArrived {
  std::string resource_version{};
  std::string continue_token{};  // empty: the last page
};
struct ListFailed {
  base::Error error{};
};
struct WatchOpened {};
struct WatchRefused {  // the answer to opening was an error
  base::Error error;
};
struct WatchEventArrived {
  enum class Type { kAdded, kModified, kDeleted, kBookmark, kError };
  Type type = Type::kAdded;
  std::string resource_version{};
  base::Error error{};  // of kError
};
struct WatchEnded {                  // the stream is over
  std::optional<base::Error> error;  // none: the server ended it properly
};
using WatchInput =
    std::variant<PageArrived, ListFailed, WatchOpened, WatchRefused, WatchEventArrived, WatchEnded>;

// What the store has to do about it.
enum class StoreAction {
  kNone,
  kAddPage,           // take the page's objects
  kAddPageAndCommit,  // and replace the world with the list
  kUpsert,
  kRemove,
};

struct WatchStep {
  WatchState next;
  StoreAction action = StoreAction::kNone;
  // The page is the first of its list: forget what an unfinished list has brought.
  bool begin_list = false;
  bool back_off = false;        // wait before the next request
  bool reset_back_off = false;  // the watch works: the next wait is a short one again
};

// An input that does not fit the state (a page while watching) leaves everything as it is.
WatchStep Advance(const WatchState& state, const WatchInput& input);

// Whether `error` says that the version asked for is not there any more (or not there yet after the
// server's data was restored): list again.
bool IsDesynchronized(const base::Error& error);

// One line of a watch, decoded. `object` points into `line`, which must be followed by 64 readable
// bytes. For a bookmark only the resource version of `meta` is set.
struct DecodedEvent {
  WatchEventArrived event;
  ObjectMeta meta{};
  std::string_view object;
};
base::Result<DecodedEvent> DecodeEvent(std::string_view line);

}  // namespace pitcrew::kube
