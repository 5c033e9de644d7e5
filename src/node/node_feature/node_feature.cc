#include "node/node_feature/node_feature.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace pitcrew::node::node_feature {
namespace {

using codec::Json;
using Path = std::initializer_list<std::string_view>;

constexpr int kMostConflicts = 5;

bool IsEmpty(const Json* value) { return value == nullptr || value->is_null() || value->empty(); }

bool SameMember(const Json& a, const Json& b, Path path) {
  const Json* in_a = codec::Find(a, path);
  const Json* in_b = codec::Find(b, path);
  if (IsEmpty(in_a) || IsEmpty(in_b)) return IsEmpty(in_a) && IsEmpty(in_b);
  return *in_a == *in_b;
}

// Annotations of others stay on an object whose writer has none of its own.
bool OwnsAnnotations(const Json& desired) {
  return !IsEmpty(codec::Find(desired, {"metadata", "annotations"}));
}

}  // namespace

bool IsUpToDate(const Json& live, const Json& desired) {
  for (const Path path :
       {Path{"metadata", "labels"}, Path{"metadata", "ownerReferences"}, Path{"spec", "labels"},
        Path{"spec", "features", "flags"}, Path{"spec", "features", "attributes"},
        Path{"spec", "features", "instances"}}) {
    if (!SameMember(live, desired, path)) return false;
  }
  return !OwnsAnnotations(desired) || SameMember(live, desired, {"metadata", "annotations"});
}

base::Result<Json> Writer::CurrentSpec(const io::StopToken& stop) const {
  auto live = client_->Get(kNodeFeatures, key_, stop);
  if (!live) {
    if (live.error().code == base::Code::kNotFound) return Json();
    return base::Fail(std::move(live).error());
  }
  const auto* spec = codec::Find(*live, {"spec"});
  return spec == nullptr ? Json() : *spec;
}

base::Result<Outcome> Writer::PublishOnce(const Json& desired, const io::StopToken& stop) const {
  const auto live = client_->Get(kNodeFeatures, key_, stop);
  if (!live) {
    if (live.error().code != base::Code::kNotFound) return base::Fail(live.error());
    TRY(client_->Create(kNodeFeatures, desired, {}, stop));
    return Outcome::kCreated;
  }
  if (IsUpToDate(*live, desired)) return Outcome::kUnchanged;
  auto next = *live;
  next["spec"] = desired.at("spec");
  for (const auto* part : {"labels", "annotations", "ownerReferences"}) {
    if (part == std::string_view("annotations") && !OwnsAnnotations(desired)) continue;
    next["metadata"].erase(part);
    if (const auto* wanted = codec::Find(desired, {"metadata", part})) {
      next["metadata"][part] = *wanted;
    }
  }
  TRY(client_->Update(kNodeFeatures, next, {}, stop));
  return Outcome::kUpdated;
}

base::Result<Outcome> Writer::Publish(const Json& desired, const io::StopToken& stop) const {
  for (int tries = 1;; ++tries) {
    auto outcome = PublishOnce(desired, stop);
    if (outcome) return outcome;
    const bool raced = outcome.error().code == base::Code::kConflict ||
                       outcome.error().code == base::Code::kExists;
    if (!raced || tries == kMostConflicts) {
      return base::Fail(outcome.error().Within(fmt::format("NodeFeature {}", key_.ToString())));
    }
  }
}

}  // namespace pitcrew::node::node_feature
