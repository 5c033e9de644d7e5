#include "support_changes.h"
#include "tests/support/patience.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace pitcrew::kube {

using codec::Json;

base::Result<VersionView> ProjectVersion(const Json& object) {
  return VersionView{.uid = codec::FindString(object, {"metadata", "uid"}),
                     .resource_version = codec::FindString(object, {"metadata", "resourceVersion"}),
                     .value = codec::FindString(object, {"data", "value"})};
}

void ChangeRecorder::Attach(Informer<VersionView>& informer) {
  informer.AddHandler([this](const Change<VersionView>& change) { Take(change); });
}

void ChangeRecorder::Take(const Change<VersionView>& change) {
  const std::scoped_lock lock(mutex_);
  ++changes_;
  const auto known = world_.find(change.key);
  const bool there = known != world_.end();
  const std::string name = change.key.ToString();
  if ((change.kind == ChangeKind::kAdded) == there) {
    violations_.push_back(fmt::format("{}: {} while it was {}", name, static_cast<int>(change.kind),
                                      there ? "there" : "absent"));
  }
  if (there && (change.before == nullptr || *change.before != known->second)) {
    violations_.push_back(name + ": the old view is not the last one");
  }
  if (change.kind == ChangeKind::kDeleted) {
    world_.erase(change.key);
  } else {
    if (!told_.insert(change.now->uid + "/" + change.now->resource_version).second) {
      violations_.push_back(
          fmt::format("{}: version {} twice", name, change.now->resource_version));
    }
    world_[change.key] = *change.now;
  }
  changed_.notify_all();
}

std::vector<std::string> ChangeRecorder::violations() const {
  const std::scoped_lock lock(mutex_);
  return violations_;
}

std::map<ObjectKey, std::string> ChangeRecorder::world() const {
  const std::scoped_lock lock(mutex_);
  std::map<ObjectKey, std::string> values;
  for (const auto& [key, view] : world_) values[key] = view.value;
  return values;
}

int ChangeRecorder::changes() const {
  const std::scoped_lock lock(mutex_);
  return changes_;
}

bool ChangeRecorder::WaitFor(
    const std::function<bool(const std::map<ObjectKey, std::string>&)>& wanted) const {
  const auto deadline = std::chrono::steady_clock::now() + test_support::kPatience;
  for (;;) {
    if (wanted(world())) return true;
    std::unique_lock lock(mutex_);
    const int seen = changes_;
    // The world may have moved between the two looks.
    std::map<ObjectKey, std::string> values;
    for (const auto& [key, view] : world_) values[key] = view.value;
    if (wanted(values)) return true;
    if (!changed_.wait_until(lock, deadline, [&] { return changes_ != seen; })) return false;
  }
}

Json MakeConfigMap(const std::string& space, const std::string& name, const std::string& value) {
  return {{"metadata", {{"namespace", space}, {"name", name}}}, {"data", {{"value", value}}}};
}

void EnsureNamespace(Client& client, const std::string& name) {
  const auto created = client.Create(kNamespaces, {{"metadata", {{"name", name}}}});
  ASSERT_TRUE(created || created.error().code == base::Code::kExists) << created.error().message;
}

std::map<ObjectKey, std::string> LiveConfigMaps(Client& client, const std::string& space) {
  std::map<ObjectKey, std::string> values;
  const auto list = client.List(kConfigMaps, space);
  if (!list) {
    ADD_FAILURE() << list.error().message;
    return values;
  }
  for (const Json& item : list->items) {
    values[KeyOf(item)] = codec::FindString(item, {"data", "value"});
  }
  return values;
}

}  // namespace pitcrew::kube
