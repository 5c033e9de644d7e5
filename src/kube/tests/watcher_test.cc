#include "kube/watcher.h"

#include <gtest/gtest.h>

#include <random>

#include "kube/projection.h"

namespace pitcrew::kube {
namespace {

using Type = WatchEventArrived::Type;

base::Error Gone() { return {base::Code::kGone, "Expired", "too old"}; }
base::Error Away() { return base::Unavailable("ConnectionRefused", "nobody there"); }
WatchEventArrived Event(Type type, const std::string& version) {
  return {.type = type, .resource_version = version, .error = {}};
}
WatchEventArrived ErrorEvent(base::Error error) {
  return {.type = Type::kError, .resource_version = {}, .error = std::move(error)};
}

TEST(Watcher, ListsPageByPageThenWatches) {
  auto step = Advance(Empty{}, PageArrived{.resource_version = "5", .continue_token = "t"});
  EXPECT_EQ(step.next, WatchState(Listing{"t"}));
  EXPECT_EQ(step.action, StoreAction::kAddPage);
  EXPECT_TRUE(step.begin_list);
  step = Advance(step.next, PageArrived{.resource_version = "5", .continue_token = ""});
  EXPECT_EQ(step.next, WatchState(Listed{"5"}));
  EXPECT_EQ(step.action, StoreAction::kAddPageAndCommit);
  EXPECT_FALSE(step.begin_list);
  step = Advance(step.next, WatchOpened{});
  EXPECT_EQ(step.next, WatchState(Watching{"5", false}));
  step = Advance(step.next, Event(Type::kAdded, "6"));
  EXPECT_EQ(step.next, WatchState(Watching{"6", true}));
  EXPECT_EQ(step.action, StoreAction::kUpsert);
  EXPECT_TRUE(step.reset_back_off);
}

TEST(Watcher, EventsMoveTheVersion) {
  const WatchState watching = Watching{"5"};
  EXPECT_EQ(Advance(watching, Event(Type::kModified, "7")).action, StoreAction::kUpsert);
  EXPECT_EQ(Advance(watching, Event(Type::kDeleted, "8")).action, StoreAction::kRemove);
  const auto bookmark = Advance(watching, Event(Type::kBookmark, "9"));
  EXPECT_EQ(bookmark.action, StoreAction::kNone);
  EXPECT_EQ(bookmark.next, WatchState(Watching{"9", true}));
}

TEST(Watcher, GoneAlwaysLeadsBackToTheBeginning) {
  const auto step = Advance(Watching{"5"}, ErrorEvent(Gone()));
  EXPECT_EQ(step.next, WatchState(Empty{}));
  // A server that says so again and again is not asked for whole lists in a tight loop.
  EXPECT_TRUE(step.back_off);
  EXPECT_EQ(Advance(Listed{"5"}, WatchRefused{Gone()}).next, WatchState(Empty{}));
  EXPECT_EQ(Advance(Watching{"5"}, WatchEnded{Gone()}).next, WatchState(Empty{}));
  EXPECT_EQ(Advance(Listing{"t"}, ListFailed{Gone()}).next, WatchState(Empty{}));
}

TEST(Watcher, AVersionFromAnotherLifeOfTheServerIsGoneToo) {
  // After etcd was restored from a backup.
  EXPECT_EQ(
      Advance(Listed{"5"}, WatchRefused{{base::Code::kUnavailable, "ResourceVersionTooLarge", ""}})
          .next,
      WatchState(Empty{}));
  EXPECT_EQ(Advance(Listed{"5"}, WatchRefused{base::Invalid("BadRequest", "")}).next,
            WatchState(Empty{}));
}

TEST(Watcher, OtherTroubleResumesFromTheSameVersion) {
  auto step = Advance(Watching{"5"}, WatchEnded{Away()});
  EXPECT_EQ(step.next, WatchState(Listed{"5"}));
  EXPECT_TRUE(step.back_off);
  step = Advance(Listed{"5"}, WatchRefused{Away()});
  EXPECT_EQ(step.next, WatchState(Listed{"5"}));
  EXPECT_TRUE(step.back_off);
  step = Advance(Watching{"5"}, ErrorEvent({base::Code::kUnavailable, "InternalError", ""}));
  EXPECT_EQ(step.next, WatchState(Listed{"5"}));
  step = Advance(Listing{"t"}, ListFailed{Away()});
  EXPECT_EQ(step.next, WatchState(Listing{"t"}));
  EXPECT_TRUE(step.back_off);
  step = Advance(Empty{}, ListFailed{Away()});
  EXPECT_EQ(step.next, WatchState(Empty{}));
  EXPECT_TRUE(step.back_off);
}

TEST(Watcher, AnOrdinaryEndResumesAtOnce) {
  EXPECT_FALSE(Advance(Watching{"5", true}, WatchEnded{}).back_off);
  // But not in a tight loop when no watch brings anything.
  EXPECT_TRUE(Advance(Watching{"5", false}, WatchEnded{}).back_off);
}

TEST(Watcher, InputsOfAnotherStateChangeNothing) {
  const WatchState watching = Watching{"5"};
  EXPECT_EQ(Advance(watching, PageArrived{.resource_version = "9", .continue_token = ""}).next,
            watching);
  EXPECT_EQ(Advance(WatchState(Empty{}), Event(Type::kAdded, "6")).action, StoreAction::kNone);
  EXPECT_EQ(Advance(WatchState(Listed{"5"}), WatchEnded{}).next, WatchState(Listed{"5"}));
}

// What the state says about the version that is known; none while a list is under way.
std::optional<std::string> KnownVersion(const WatchState& state) {
  if (const auto* listed = std::get_if<Listed>(&state)) return listed->resource_version;
  if (const auto* watching = std::get_if<Watching>(&state)) return watching->resource_version;
  return std::nullopt;
}

// Whatever happens in whatever order: the store is only committed by a list that was begun, events
// reach it only after a commit, and the version known is that of the last page or event taken.
TEST(Watcher, NoOrderOfInputsBreaksTheProtocol) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): repeatable
  WatchState state = Empty{};
  bool begun = false;
  bool committed = false;
  int version = 0;
  std::optional<std::string> known;
  for (int i = 0; i < 20000; ++i) {
    const std::string number = std::to_string(++version);
    WatchInput input;
    switch (random() % 9) {
      case 0:
        input = PageArrived{.resource_version = number, .continue_token = "t"};
        break;
      case 1:
        input = PageArrived{.resource_version = number, .continue_token = ""};
        break;
      case 2:
        input = ListFailed{random() % 2 == 0 ? Gone() : Away()};
        break;
      case 3:
        input = WatchOpened{};
        break;
      case 4:
        input = WatchRefused{random() % 2 == 0 ? Gone() : Away()};
        break;
      case 5:
        input = Event(static_cast<Type>(random() % 4), number);
        break;
      case 6:
        input = ErrorEvent(random() % 2 == 0 ? Gone() : Away());
        break;
      case 7:
        input = WatchEnded{};
        break;
      default:
        input = WatchEnded{Away()};
        break;
    }
    const bool was_empty = std::holds_alternative<Empty>(state);
    const auto step = Advance(state, input);
    if (was_empty) begun = false;
    begun = begun || step.begin_list;
    switch (step.action) {
      case StoreAction::kAddPage:
        ASSERT_TRUE(begun);
        break;
      case StoreAction::kAddPageAndCommit:
        ASSERT_TRUE(begun);
        ASSERT_TRUE(std::holds_alternative<Listed>(step.next));
        committed = true;
        break;
      case StoreAction::kUpsert:
      case StoreAction::kRemove:
        ASSERT_TRUE(committed);
        ASSERT_TRUE(std::holds_alternative<Watching>(state));
        break;
      case StoreAction::kNone:
        break;
    }
    const bool event_taken = std::holds_alternative<Watching>(state) &&
                             std::holds_alternative<WatchEventArrived>(input) &&
                             std::get<WatchEventArrived>(input).type != Type::kError;
    if (event_taken || step.action == StoreAction::kAddPageAndCommit) known = number;
    if (!KnownVersion(step.next)) known.reset();
    ASSERT_EQ(KnownVersion(step.next), known);
    state = step.next;
  }
  EXPECT_TRUE(committed);
}

base::Result<DecodedEvent> Decode(std::string& line) {
  line.reserve(line.size() + kReadablePadding);
  return DecodeEvent(line);
}

TEST(Watcher, DecodesEvents) {
  std::string line =
      R"({"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"p","namespace":"n","uid":"u",)"
      R"("resourceVersion":"12","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{}}})";
  const auto event = Decode(line);
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(event->event.type, Type::kModified);
  EXPECT_EQ(event->event.resource_version, "12");
  EXPECT_EQ(event->meta.key, (ObjectKey{.namespace_name = "n", .name = "p"}));
  EXPECT_EQ(event->meta.uid, "u");
  EXPECT_TRUE(event->meta.deleting);
  EXPECT_TRUE(codec::ParseJson(event->object));
}

TEST(Watcher, DecodesEventsOfAnySize) {
  // Above 1 MiB the reader's buffers end with the reading.
  std::string line =
      R"({"type":"DELETED","object":{"kind":"ConfigMap","metadata":{"name":"c","namespace":"n",)"
      R"("uid":"u","resourceVersion":"12"},"data":{"x":")" +
      std::string(3U << 20U, 'x') + R"("}}})";
  const auto event = Decode(line);
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(event->event.type, Type::kDeleted);
  EXPECT_EQ(event->meta.key.name, "c");
}

TEST(Watcher, DecodesBookmarksAndErrors) {
  std::string bookmark =
      R"({"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"99"}}})";
  EXPECT_EQ(Decode(bookmark)->event.resource_version, "99");
  std::string error =
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}})";
  const auto event = Decode(error);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event.type, Type::kError);
  EXPECT_TRUE(IsDesynchronized(event->event.error));
}

TEST(Watcher, RefusesWhatIsNoEvent) {
  for (std::string line : {"", "x", "{}", R"({"type":"ADDED"})", R"({"type":"ADDED","object":{}})",
                           R"({"type":"ADDED","object":{"metadata":{"name":"p"})",
                           R"({"type":"BOOKMARK","object":{"metadata":{}}})"}) {
    const auto event = Decode(line);
    ASSERT_FALSE(event) << line;
    EXPECT_EQ(event.error().reason, "UnreadableObject");
  }
}

}  // namespace
}  // namespace pitcrew::kube
