// The cached world: what an informer has seen, projected to the few fields that are needed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/observed.h"
#include "base/result.h"
#include "kube/resource.h"

namespace pitcrew::kube {

// Makes the view of one object from its JSON text. At least 64 readable bytes follow the text
// (simdjson's padding). Objects that come from a list may lack kind and apiVersion. Called on the
// informer's thread. Helpers: projection.h. When View has an operator==, a version whose view
// equals the last one's is no change: heartbeats and other fields wake nobody.
template <class View>
using Projection = std::function<base::Result<View>(std::string_view raw_json)>;

enum class ChangeKind { kAdded, kModified, kDeleted };

// One difference between two states of the store.
template <class View>
struct Change {
  ChangeKind kind = ChangeKind::kAdded;
  ObjectKey key{};
  std::shared_ptr<const View> before{};  // null when added
  std::shared_ptr<const View> now{};     // null when deleted
  bool initial = false;                  // from the first list: not news
};

// The type-free part of Store: one writer (the informer's thread), any number of readers. An
// exception of the projection makes the object's newest version unreadable; one of a handler is
// logged, told to the problem handlers and listed by Unreadable(), and the other handlers are still
// told of the change.
class ObjectStore final {
 public:
  using AnyView = std::shared_ptr<const void>;
  using AnyProjection = std::function<base::Result<AnyView>(std::string_view raw_json)>;
  using AnyEqual = std::function<bool(const void*, const void*)>;
  struct AnyChange {
    ChangeKind kind;
    ObjectKey key{};
    AnyView before;
    AnyView now;
    bool initial;
  };

  // `equal` may be null: then every version of an object is a change.
  explicit ObjectStore(AnyProjection projection, AnyEqual equal = nullptr);

  // Objects as text, in the order of the API, from the writer.
  // A list begins; what an unfinished earlier one has brought is dropped.
  void BeginList();
  void AddListed(const ObjectMeta& meta, std::string_view raw_json);
  // The list is whole: it replaces what was there, at once.
  void CommitList();
  void Upsert(const ObjectMeta& meta, std::string_view raw_json);
  void Remove(const ObjectMeta& meta);

  // Both are called on the writer's thread, outside the lock, after readers see the change. To be
  // set before the first list.
  void AddHandler(std::function<void(const AnyChange&)> handler);
  void AddProblemHandler(std::function<void(const ObjectKey&, const base::Error&)> handler);

  [[nodiscard]] base::Observed<AnyView> Find(const ObjectKey& key) const;
  [[nodiscard]] std::vector<std::pair<ObjectKey, AnyView>> All() const;
  [[nodiscard]] std::vector<std::pair<ObjectKey, base::Error>> Unreadable() const;
  [[nodiscard]] bool synced() const;
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    AnyView view;  // the last that could be made; null when none ever could
    std::string resource_version{};
    std::uint64_t uid_hash = 0;
    std::shared_ptr<const base::Error> problem{};  // why the newest version has no view of its own
  };
  using Entries = std::unordered_map<ObjectKey, Entry>;
  struct Delivery {
    std::vector<AnyChange> changes{};
    std::vector<std::pair<ObjectKey, std::shared_ptr<const base::Error>>> problems{};
  };

  static bool SameVersion(const Entry& entry, const ObjectMeta& meta);
  Entry Project(const ObjectMeta& meta, std::string_view raw_json, const Entry* known) const;
  static void Compare(const ObjectKey& key, const Entry* before, const Entry* now, bool initial,
                      Delivery& delivery);
  [[nodiscard]] base::Result<AnyView> TryProject(std::string_view raw_json) const;
  void Deliver(const Delivery& delivery);
  void NoteThrow(const ObjectKey& key, const char* what);
  void TellProblem(const ObjectKey& key, const base::Error& problem) const;

  AnyProjection projection_;
  AnyEqual equal_;
  std::vector<std::function<void(const AnyChange&)>> handlers_;
  std::vector<std::function<void(const ObjectKey&, const base::Error&)>> problem_handlers_;
  Entries listing_;  // the writer's alone

  mutable std::shared_mutex mutex_;
  Entries entries_;  // written by the writer under the lock
  bool synced_ = false;
};

// Read side of an informer. Thread-safe. The views are immutable and outlive their replacement.
template <class View>
class Store {
 public:
  using ViewPointer = std::shared_ptr<const View>;

  explicit Store(std::shared_ptr<const ObjectStore> objects) : objects_(std::move(objects)) {}

  // Unknown before the first list has ended and for an object that never had a readable version.
  // An object whose newest version cannot be read keeps its last view.
  [[nodiscard]] base::Observed<ViewPointer> Find(const ObjectKey& key) const {
    auto found = objects_->Find(key);
    if (found.is_absent()) return base::Observed<ViewPointer>::Missing();
    if (found.is_unknown()) return base::Observed<ViewPointer>::Unknown(*found.error());
    return base::Observed<ViewPointer>::Present(Cast(*found.value()));
  }

  // The whole store as it is now, sorted by key. Costs O(n); views are shared, not copied.
  [[nodiscard]] std::vector<std::pair<ObjectKey, ViewPointer>> Snapshot() const {
    std::vector<std::pair<ObjectKey, ViewPointer>> result;
    for (auto& [key, view] : objects_->All()) result.emplace_back(std::move(key), Cast(view));
    return result;
  }

  // Objects whose newest version could not be projected or was not taken by a handler, with the
  // reason.
  [[nodiscard]] std::vector<std::pair<ObjectKey, base::Error>> Unreadable() const {
    return objects_->Unreadable();
  }
  // Whether one whole list has been seen. Never becomes false again.
  [[nodiscard]] bool synced() const { return objects_->synced(); }
  // Objects known, readable or not.
  [[nodiscard]] std::size_t size() const { return objects_->size(); }

 private:
  static ViewPointer Cast(const ObjectStore::AnyView& view) {
    return std::static_pointer_cast<const View>(view);
  }
  std::shared_ptr<const ObjectStore> objects_;
};

}  // namespace pitcrew::kube
