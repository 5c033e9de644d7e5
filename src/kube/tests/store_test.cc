#include "kube/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace pitcrew::kube {
namespace {

struct View {
  std::string text;
};

// The raw text is the view; "bad" cannot be read.
class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    objects_->AddHandler([this](const ObjectStore::AnyChange& change) {
      const auto text = [](const ObjectStore::AnyView& view) {
        return view ? static_cast<const View*>(view.get())->text : std::string("-");
      };
      const std::string kind[] = {"added", "modified", "deleted"};
      log_.push_back(kind[static_cast<int>(change.kind)] + " " + change.key.name + " " +
                     text(change.before) + ">" + text(change.now) +
                     (change.initial ? " initial" : ""));
    });
    objects_->AddProblemHandler([this](const ObjectKey& key, const base::Error& error) {
      log_.push_back("problem " + key.name + " " + error.reason);
    });
  }

  static ObjectMeta Meta(const std::string& name, const std::string& version,
                         const std::string& uid = "u") {
    return {.key = {.name = name}, .uid = uid, .resource_version = version};
  }
  std::vector<std::string> TakeLog() { return std::exchange(log_, {}); }
  void List(const std::vector<std::pair<ObjectMeta, std::string>>& objects) {
    objects_->BeginList();
    for (const auto& [meta, raw] : objects) objects_->AddListed(meta, raw);
    objects_->CommitList();
  }
  std::string Text(const std::string& name) const {
    const auto found = store_.Find({.name = name});
    if (found.is_absent()) return "absent";
    if (found.is_unknown()) return "unknown";
    return (*found.value())->text;
  }

  std::vector<std::string> log_;
  std::shared_ptr<ObjectStore> objects_ =
      std::make_shared<ObjectStore>([](std::string_view raw) -> base::Result<ObjectStore::AnyView> {
        if (raw == "throws") throw std::runtime_error("thrown by the projection");
        if (raw == "bad") return base::Fail(base::Invalid("Bad", "cannot be read"));
        return std::make_shared<const View>(View{std::string(raw)});
      });
  Store<View> store_{objects_};
};

using Lines = std::vector<std::string>;

TEST_F(StoreTest, NothingIsKnownBeforeTheFirstList) {
  EXPECT_EQ(Text("a"), "unknown");
  EXPECT_FALSE(store_.synced());
  objects_->BeginList();
  objects_->AddListed(Meta("a", "1"), "x");
  EXPECT_EQ(Text("a"), "unknown");
  EXPECT_EQ(TakeLog(), Lines());
  objects_->CommitList();
  EXPECT_EQ(Text("a"), "x");
  EXPECT_EQ(Text("b"), "absent");
  EXPECT_EQ(TakeLog(), Lines({"added a ->x initial"}));
}

TEST_F(StoreTest, AListIsTheDifferenceToWhatWasKnown) {
  List({{Meta("same", "1"), "s"}, {Meta("changed", "2"), "old"}, {Meta("gone", "3"), "g"}});
  TakeLog();
  objects_->BeginList();
  objects_->AddListed(Meta("same", "1"), "s");
  objects_->AddListed(Meta("changed", "9"), "new");
  objects_->AddListed(Meta("born", "8"), "b");
  // Readers still see the old world.
  EXPECT_EQ(Text("gone"), "g");
  EXPECT_EQ(Text("changed"), "old");
  objects_->CommitList();
  auto log = TakeLog();
  std::sort(log.begin(), log.end());
  EXPECT_EQ(log, Lines({"added born ->b", "deleted gone g>-", "modified changed old>new"}));
  EXPECT_EQ(Text("gone"), "absent");
}

TEST_F(StoreTest, AnUnfinishedListLeavesNoTrace) {
  List({{Meta("a", "1"), "x"}});
  objects_->BeginList();
  objects_->AddListed(Meta("half", "2"), "h");
  List({{Meta("a", "1"), "x"}});
  EXPECT_EQ(Text("half"), "absent");
}

TEST_F(StoreTest, EventsChangeOneObject) {
  List({{Meta("a", "1"), "x"}});
  TakeLog();
  objects_->Upsert(Meta("a", "2"), "y");
  objects_->Upsert(Meta("b", "3"), "z");
  objects_->Remove(Meta("a", "4"));
  EXPECT_EQ(TakeLog(), Lines({"modified a x>y", "added b ->z", "deleted a y>-"}));
}

TEST_F(StoreTest, AReplayedVersionIsNoChange) {
  List({{Meta("a", "1"), "x"}});
  TakeLog();
  objects_->Upsert(Meta("a", "1"), "x");
  objects_->Remove(Meta("never there", "1"));
  EXPECT_EQ(TakeLog(), Lines());
}

TEST_F(StoreTest, ASecondLifeUnderTheSameNameEndsTheFirst) {
  List({{Meta("a", "1", "first"), "x"}});
  TakeLog();
  List({{Meta("a", "5", "second"), "y"}});
  EXPECT_EQ(TakeLog(), Lines({"deleted a x>-", "added a ->y"}));
  // A late end of the first life does not end the second.
  objects_->Remove(Meta("a", "3", "first"));
  EXPECT_EQ(Text("a"), "y");
}

TEST_F(StoreTest, AnUnreadableVersionKeepsTheLastView) {
  List({{Meta("a", "1"), "x"}});
  TakeLog();
  objects_->Upsert(Meta("a", "2"), "bad");
  EXPECT_EQ(TakeLog(), Lines({"problem a Bad"}));
  EXPECT_EQ(Text("a"), "x");
  ASSERT_EQ(store_.Unreadable().size(), 1U);
  // Listed again as it is: neither a change nor told once more.
  List({{Meta("a", "2"), "bad"}});
  EXPECT_EQ(TakeLog(), Lines());
  EXPECT_EQ(Text("a"), "x");
  objects_->Upsert(Meta("a", "3"), "good");
  EXPECT_EQ(TakeLog(), Lines({"modified a x>good"}));
  EXPECT_TRUE(store_.Unreadable().empty());
}

TEST_F(StoreTest, AnObjectThatWasNeverReadableIsUnknownNotAbsent) {
  List({{Meta("a", "1"), "bad"}});
  EXPECT_EQ(Text("a"), "unknown");
  EXPECT_EQ(store_.size(), 1U);
  TakeLog();
  objects_->Upsert(Meta("a", "2"), "x");
  EXPECT_EQ(TakeLog(), Lines({"added a ->x"}));
}

TEST_F(StoreTest, AnUnreadableSecondLifeDoesNotInheritTheFirstOnesView) {
  List({{Meta("a", "1", "first"), "x"}});
  TakeLog();
  objects_->Upsert(Meta("a", "2", "second"), "bad");
  EXPECT_EQ(TakeLog(), Lines({"problem a Bad", "deleted a x>-"}));
  EXPECT_EQ(Text("a"), "unknown");
}

TEST_F(StoreTest, EqualViewsAreNoChange) {
  auto objects = std::make_shared<ObjectStore>(
      [](std::string_view raw) -> base::Result<ObjectStore::AnyView> {
        return std::make_shared<const View>(View{std::string(raw)});
      },
      [](const void* a, const void* b) {
        return static_cast<const View*>(a)->text == static_cast<const View*>(b)->text;
      });
  int changes = 0;
  objects->AddHandler([&](const ObjectStore::AnyChange&) { ++changes; });
  objects->BeginList();
  objects->AddListed(Meta("a", "1"), "x");
  objects->CommitList();
  objects->Upsert(Meta("a", "2"), "x");
  EXPECT_EQ(changes, 1);
  objects->Upsert(Meta("a", "3"), "y");
  EXPECT_EQ(changes, 2);
}

TEST_F(StoreTest, ReadersNeverSeeAHalfReplacedWorld) {
  const auto list = [&](int round) {
    objects_->BeginList();
    for (int i = 0; i < 50; ++i) {
      objects_->AddListed(Meta("o" + std::to_string(i), std::to_string(round)),
                          std::to_string(round));
    }
    objects_->CommitList();
  };
  list(0);
  std::atomic<bool> writing{true};
  std::thread reader([&] {
    while (writing) {
      const auto snapshot = store_.Snapshot();
      ASSERT_EQ(snapshot.size(), 50U);
      for (const auto& [key, view] : snapshot) {
        ASSERT_EQ(view->text, snapshot.front().second->text);
      }
    }
  });
  for (int round = 1; round < 300; ++round) list(round);
  writing = false;
  reader.join();
}

TEST_F(StoreTest, AProjectionThatThrowsMakesItsObjectUnknownAndNothingElse) {
  List({{Meta("a", "1"), "throws"}, {Meta("b", "1"), "one"}});
  EXPECT_EQ(Text("a"), "unknown");
  EXPECT_EQ(Text("b"), "one");
  objects_->Upsert(Meta("b", "2"), "throws");
  EXPECT_EQ(Text("b"), "one");
  const auto unreadable = store_.Unreadable();
  ASSERT_EQ(unreadable.size(), 2U);
  EXPECT_EQ(unreadable.front().second.message, "thrown by the projection");
  objects_->Upsert(Meta("a", "2"), "two");
  EXPECT_EQ(Text("a"), "two");
}

TEST_F(StoreTest, AHandlerThatThrowsDoesNotKeepTheOthersFromTheChange) {
  objects_ =
      std::make_shared<ObjectStore>([](std::string_view raw) -> base::Result<ObjectStore::AnyView> {
        return std::make_shared<const View>(View{std::string(raw)});
      });
  store_ = Store<View>(objects_);
  objects_->AddHandler([](const ObjectStore::AnyChange& change) {
    if (change.key.name == "a") throw std::runtime_error("thrown by a handler");
  });
  objects_->AddHandler(
      [this](const ObjectStore::AnyChange& change) { log_.push_back(change.key.name); });
  objects_->AddProblemHandler([this](const ObjectKey& key, const base::Error& error) {
    log_.push_back("problem " + key.name + " " + error.message);
    throw std::runtime_error("thrown by a handler of problems");
  });
  List({{Meta("a", "1"), "one"}});
  objects_->Upsert(Meta("b", "1"), "one");
  EXPECT_EQ(TakeLog(), (Lines{"problem a thrown by a handler", "a", "b"}));
  ASSERT_EQ(store_.Unreadable().size(), 1U);
  EXPECT_EQ(store_.Unreadable().front().first.name, "a");
}

}  // namespace
}  // namespace pitcrew::kube
