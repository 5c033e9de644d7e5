#include "snapshot/snapshot.h"

#include <fmt/format.h>

namespace pitcrew::snapshot {
namespace {

using codec::Json;

std::string GroupOf(std::string_view api_version) {
  const auto slash = api_version.find('/');
  return slash == std::string_view::npos ? "" : std::string(api_version.substr(0, slash));
}

}  // namespace

std::string KindName::ToString() const {
  // Kubernetes' own groups have no dot, or end with k8s.io.
  const bool own = group.find('.') == std::string::npos || group.ends_with(".k8s.io");
  return own ? kind : fmt::format("{}.{}", kind, group);
}

KindName KindNameOf(const kube::ResourceKind& kind) {
  return {.group = std::string(kind.group), .kind = std::string(kind.kind)};
}

KindName KindNameOf(const Json& object) {
  return {.group = GroupOf(codec::FindString(object, {"apiVersion"})),
          .kind = codec::FindString(object, {"kind"})};
}

base::Status CheckIdentity(const Json& object) {
  if (!object.is_object()) {
    return base::Fail(base::Invalid("NotAnObject", "this is not a Kubernetes object"));
  }
  for (const char* field : {"apiVersion", "kind"}) {
    if (codec::FindString(object, {field}).empty()) {
      return base::Fail(base::Invalid("NotAnObject", fmt::format("the object has no {}", field)));
    }
  }
  if (codec::FindString(object, {"metadata", "name"}).empty()) {
    return base::Fail(base::Invalid(
        "NotAnObject", fmt::format("the {} has no metadata.name", KindNameOf(object).ToString())));
  }
  return {};
}

base::Error StandsTwice(const Json& object) {
  return {base::Code::kExists, "ObjectTwice",
          fmt::format("{} {} stands here a second time", KindNameOf(object).ToString(),
                      kube::KeyOf(object).ToString())};
}

const Snapshot::Reading* Snapshot::ReadingOf(const kube::ResourceKind& kind) const {
  const auto found = readings_.find(KindNameOf(kind));
  return found == readings_.end() ? nullptr : &found->second;
}

Coverage Snapshot::coverage(const kube::ResourceKind& kind) const {
  const Reading* reading = ReadingOf(kind);
  return reading == nullptr ? Coverage::kNotMentioned : reading->coverage;
}

const base::Error* Snapshot::error(const kube::ResourceKind& kind) const {
  const Reading* reading = ReadingOf(kind);
  return reading != nullptr && reading->coverage == Coverage::kUnknown ? &reading->error : nullptr;
}

const Objects& Snapshot::All(const kube::ResourceKind& kind) const {
  static const Objects kNone;
  const auto found = objects_.find(KindNameOf(kind));
  return found == objects_.end() ? kNone : found->second;
}

const Json* Snapshot::FindPresent(const kube::ResourceKind& kind,
                                  const kube::ObjectKey& key) const {
  const Objects& all = All(kind);
  const auto found = all.find(key);
  return found == all.end() ? nullptr : &found->second;
}

base::Observed<const Json*> Snapshot::Find(const kube::ResourceKind& kind,
                                           const kube::ObjectKey& key) const {
  using Found = base::Observed<const Json*>;
  if (const Json* object = FindPresent(kind, key)) return Found::Present(object);
  const Reading* reading = ReadingOf(kind);
  if (reading != nullptr) {
    if (const auto one = reading->unknown.find(key); one != reading->unknown.end()) {
      return Found::Unknown(one->second);
    }
    if (reading->missing.contains(key)) return Found::Missing();
  }
  switch (coverage(kind)) {
    case Coverage::kUnknown:
      return Found::Unknown(reading->error);
    case Coverage::kRead:
    case Coverage::kNotServed:
      return Found::Missing();
    case Coverage::kNotMentioned:
      break;
  }
  if (complete_) return Found::Missing();
  return Found::Unknown(
      base::Unavailable("NotRead", fmt::format("{} {} was not read from the cluster",
                                               KindNameOf(kind).ToString(), key.ToString())));
}

base::Status Snapshot::Add(Json object) {
  TRY(CheckIdentity(object));
  const KindName kind = KindNameOf(object);
  const kube::ObjectKey key = kube::KeyOf(object);
  Objects& objects = objects_[kind];
  if (objects.contains(key)) return base::Fail(StandsTwice(object));
  objects.emplace(key, std::move(object));
  readings_[kind].coverage = Coverage::kRead;
  return {};
}

base::Status Snapshot::Put(Json object) {
  TRY(CheckIdentity(object));
  const KindName kind = KindNameOf(object);
  objects_[kind].insert_or_assign(kube::KeyOf(object), std::move(object));
  return {};
}

void Snapshot::SetCoverage(const kube::ResourceKind& kind, Coverage coverage) {
  readings_[KindNameOf(kind)].coverage = coverage;
}

void Snapshot::SetUnknown(const kube::ResourceKind& kind, base::Error error) {
  Reading& reading = readings_[KindNameOf(kind)];
  reading.coverage = Coverage::kUnknown;
  reading.error = std::move(error);
}

void Snapshot::SetUnknown(const kube::ResourceKind& kind, const kube::ObjectKey& key,
                          base::Error error) {
  readings_[KindNameOf(kind)].unknown.insert_or_assign(key, std::move(error));
}

void Snapshot::SetMissing(const kube::ResourceKind& kind, const kube::ObjectKey& key) {
  readings_[KindNameOf(kind)].missing.insert(key);
}

}  // namespace pitcrew::snapshot
