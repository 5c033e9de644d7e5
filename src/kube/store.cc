#include "kube/store.h"

#include <algorithm>
#include <exception>

#include "base/log.h"

namespace pitcrew::kube {

ObjectStore::ObjectStore(AnyProjection projection, AnyEqual equal)
    : projection_(std::move(projection)), equal_(std::move(equal)) {}

void ObjectStore::AddHandler(std::function<void(const AnyChange&)> handler) {
  handlers_.push_back(std::move(handler));
}

void ObjectStore::AddProblemHandler(
    std::function<void(const ObjectKey&, const base::Error&)> handler) {
  problem_handlers_.push_back(std::move(handler));
}

bool ObjectStore::SameVersion(const Entry& entry, const ObjectMeta& meta) {
  return entry.uid_hash == std::hash<std::string>{}(meta.uid) &&
         entry.resource_version == meta.resource_version;
}

ObjectStore::Entry ObjectStore::Project(const ObjectMeta& meta, std::string_view raw_json,
                                        const Entry* known) const {
  Entry entry;
  entry.uid_hash = std::hash<std::string>{}(meta.uid);
  entry.resource_version = meta.resource_version;
  if (known != nullptr && SameVersion(*known, meta)) {
    entry.view = known->view;
    entry.problem = known->problem;
    return entry;
  }
  // The last view of the same object; one of an earlier object of that name does not count.
  const bool same_object = known != nullptr && known->uid_hash == entry.uid_hash;
  const AnyView last = same_object ? known->view : nullptr;
  auto view = TryProject(raw_json);
  if (!view) {
    entry.problem = std::make_shared<const base::Error>(std::move(view).error());
    entry.view = last;
  } else if (last != nullptr && equal_ && equal_(last.get(), view->get())) {
    entry.view = last;
  } else {
    entry.view = *std::move(view);
  }
  return entry;
}

void ObjectStore::Compare(const ObjectKey& key, const Entry* before, const Entry* now, bool initial,
                          Delivery& delivery) {
  const AnyView none;
  const auto add = [&](ChangeKind kind, const AnyView& old_view, const AnyView& new_view) {
    delivery.changes.push_back(AnyChange{kind, key, old_view, new_view, initial});
  };
  const AnyView& was = before == nullptr ? none : before->view;
  const AnyView& is = now == nullptr ? none : now->view;
  const bool same_object = before != nullptr && now != nullptr && before->uid_hash == now->uid_hash;
  const bool same_version = same_object && before->resource_version == now->resource_version;
  if (same_version) return;
  if (now != nullptr && now->problem != nullptr) delivery.problems.emplace_back(key, now->problem);
  if (same_object && was != nullptr && is != nullptr) {
    if (was != is) add(ChangeKind::kModified, was, is);
    return;
  }
  if (was != nullptr) add(ChangeKind::kDeleted, was, none);
  if (is != nullptr) add(ChangeKind::kAdded, none, is);
}

base::Result<ObjectStore::AnyView> ObjectStore::TryProject(std::string_view raw_json) const {
  try {
    return projection_(raw_json);
  } catch (const std::exception& problem) {
    return base::Fail(base::Internal("UncaughtException", problem.what()));
  } catch (...) {
    return base::Fail(base::Internal("UncaughtException", "an exception of unknown type"));
  }
}

void ObjectStore::TellProblem(const ObjectKey& key, const base::Error& problem) const {
  for (const auto& handler : problem_handlers_) {
    try {
      handler(key, problem);
    } catch (...) {
      // A problem of a handler of problems has no handler: it is only logged.
      base::LogError("a handler of problems has thrown an exception", problem,
                     {{"key", key.ToString()}});
    }
  }
}

// A handler has not taken a change of this object.
void ObjectStore::NoteThrow(const ObjectKey& key, const char* what) {
  const auto problem =
      std::make_shared<const base::Error>(base::Internal("UncaughtException", what));
  base::LogError("a handler of changes has thrown an exception", *problem,
                 {{"key", key.ToString()}});
  {
    const std::unique_lock lock(mutex_);
    if (const auto entry = entries_.find(key); entry != entries_.end()) {
      entry->second.problem = problem;
    }
  }
  TellProblem(key, *problem);
}

void ObjectStore::Deliver(const Delivery& delivery) {
  for (const auto& [key, problem] : delivery.problems) TellProblem(key, *problem);
  for (const AnyChange& change : delivery.changes) {
    for (const auto& handler : handlers_) {
      try {
        handler(change);
      } catch (const std::exception& problem) {
        NoteThrow(change.key, problem.what());
      } catch (...) {
        NoteThrow(change.key, "an exception of unknown type");
      }
    }
  }
}

void ObjectStore::BeginList() { Entries().swap(listing_); }

void ObjectStore::AddListed(const ObjectMeta& meta, std::string_view raw_json) {
  // Only this thread writes entries_, so it may read them without the lock.
  const auto known = entries_.find(meta.key);
  listing_[meta.key] = Project(meta, raw_json, known == entries_.end() ? nullptr : &known->second);
}

void ObjectStore::CommitList() {
  Delivery delivery;
  const bool initial = !synced_;
  for (const auto& [key, now] : listing_) {
    const auto before = entries_.find(key);
    Compare(key, before == entries_.end() ? nullptr : &before->second, &now, initial, delivery);
  }
  for (const auto& [key, before] : entries_) {
    if (!listing_.contains(key)) Compare(key, &before, nullptr, initial, delivery);
  }
  {
    const std::unique_lock lock(mutex_);
    entries_.swap(listing_);
    synced_ = true;
  }
  Entries().swap(listing_);
  Deliver(delivery);
}

void ObjectStore::Upsert(const ObjectMeta& meta, std::string_view raw_json) {
  const auto known = entries_.find(meta.key);
  const Entry* before = known == entries_.end() ? nullptr : &known->second;
  if (before != nullptr && SameVersion(*before, meta)) return;
  Entry now = Project(meta, raw_json, before);
  Delivery delivery;
  Compare(meta.key, before, &now, false, delivery);
  {
    const std::unique_lock lock(mutex_);
    entries_[meta.key] = std::move(now);
  }
  Deliver(delivery);
}

void ObjectStore::Remove(const ObjectMeta& meta) {
  const auto known = entries_.find(meta.key);
  if (known == entries_.end()) return;
  // The end of an earlier object of that name, already replaced.
  if (known->second.uid_hash != std::hash<std::string>{}(meta.uid)) return;
  Delivery delivery;
  Compare(meta.key, &known->second, nullptr, false, delivery);
  {
    const std::unique_lock lock(mutex_);
    entries_.erase(known);
  }
  Deliver(delivery);
}

base::Observed<ObjectStore::AnyView> ObjectStore::Find(const ObjectKey& key) const {
  using Observation = base::Observed<AnyView>;
  const std::shared_lock lock(mutex_);
  if (!synced_) {
    return Observation::Unknown(base::Unavailable("NotSynced", "the first list has not ended yet"));
  }
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return Observation::Missing();
  if (entry->second.view == nullptr) return Observation::Unknown(*entry->second.problem);
  return Observation::Present(entry->second.view);
}

std::vector<std::pair<ObjectKey, ObjectStore::AnyView>> ObjectStore::All() const {
  std::vector<std::pair<ObjectKey, AnyView>> all;
  {
    const std::shared_lock lock(mutex_);
    all.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) {
      if (entry.view != nullptr) all.emplace_back(key, entry.view);
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return all;
}

std::vector<std::pair<ObjectKey, base::Error>> ObjectStore::Unreadable() const {
  std::vector<std::pair<ObjectKey, base::Error>> unreadable;
  const std::shared_lock lock(mutex_);
  for (const auto& [key, entry] : entries_) {
    if (entry.problem != nullptr) unreadable.emplace_back(key, *entry.problem);
  }
  return unreadable;
}

bool ObjectStore::synced() const {
  const std::shared_lock lock(mutex_);
  return synced_;
}

std::size_t ObjectStore::size() const {
  const std::shared_lock lock(mutex_);
  return entries_.size();
}

}  // namespace pitcrew::kube
