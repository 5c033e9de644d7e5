// Follows an informer's changes and checks each against what went before.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kube/informer.h"
#include "tests/support/patience.h"

namespace pitcrew::kube {

using test_support::kPatience;

// The view of the tests: enough to tell versions apart.
struct VersionView {
  std::string uid;
  std::string resource_version;
  std::string value;  // data.value of a ConfigMap
  bool operator==(const VersionView&) const = default;
};
base::Result<VersionView> ProjectVersion(const codec::Json& object);

class ChangeRecorder {
 public:
  void Attach(Informer<VersionView>& informer);

  // What was lost or doubled: an addition of what is there, a change or a deletion of what is not,
  // a version that has been told before.
  [[nodiscard]] std::vector<std::string> violations() const;
  // The world as the changes tell it: value by object.
  [[nodiscard]] std::map<ObjectKey, std::string> world() const;
  [[nodiscard]] int changes() const;
  // Waits until the world satisfies `wanted`, for at most kPatience.
  [[nodiscard]] bool WaitFor(
      const std::function<bool(const std::map<ObjectKey, std::string>&)>& wanted) const;

 private:
  void Take(const Change<VersionView>& change);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<ObjectKey, VersionView> world_;
  std::set<std::string> told_;  // uid and version
  std::vector<std::string> violations_;
  int changes_ = 0;
};

codec::Json MakeConfigMap(const std::string& space, const std::string& name,
                          const std::string& value);

// Creates the namespace if it is not there.
void EnsureNamespace(Client& client, const std::string& name);

// The ConfigMaps that the server has, by a live list.
std::map<ObjectKey, std::string> LiveConfigMaps(Client& client, const std::string& space);

}  // namespace pitcrew::kube
