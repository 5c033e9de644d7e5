#include "operator/roll_out/take_over.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/log.h"
#include "desired/owned_object.h"
#include "desired/predecessor.h"
#include "kube/ownership.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

// How often an object may change between our reading and our writing.
constexpr int kTries = 5;

bool MayBeUpstreams(const Json& object, std::string_view owner_uid) {
  return kube::IsControlledBy(object, owner_uid) || desired::TakenOverFields(object).has_value();
}

}  // namespace

Predecessor::Predecessor(std::shared_ptr<kube::Client> client, std::string operator_namespace,
                         std::string owner_uid, const desired::OperandTable& operands)
    : client_(std::move(client)),
      operator_namespace_(std::move(operator_namespace)),
      owner_uid_(std::move(owner_uid)),
      operands_(operands) {}

base::Status Predecessor::Look(const kube::ResourceKind& kind, const io::StopToken& stop) {
  if (looked_.contains(std::string(kind.plural))) return {};
  const auto listed = client_->List(kind, kind.namespaced ? operator_namespace_ : "",
                                    {.label_selector = "", .page_size = 100}, stop);
  if (!listed) {
    return base::Fail(
        listed.error().Within(fmt::format("look for earlier objects of kind {}", kind.kind)));
  }
  for (const Json& item : listed->items) {
    if (codec::Find(item, {"metadata", "labels", api::kStateLabel}) != nullptr) {
      if (kube::IsControlledBy(item, owner_uid_) && desired::TakenOverFields(item)) {
        labelled_.insert({std::string(kind.plural), kube::KeyOf(item)});
      }
      continue;
    }
    if (!MayBeUpstreams(item, owner_uid_)) continue;
    Json object = item;  // objects of a list may lack their kind
    object["kind"] = kind.kind;
    desired::StandingObject found = desired::StandingOf(kind, object, operands_);
    base::LogInfo(
        "found an object of another operator",
        {{"kind", kind.kind}, {"name", kube::KeyOf(object).ToString()}, {"state", found.state}});
    found_.insert_or_assign({std::string(kind.plural), kube::KeyOf(object)}, std::move(found));
  }
  looked_.insert(std::string(kind.plural));
  return {};
}

base::Status Predecessor::TakeOver(const kube::ResourceKind& kind, const kube::ObjectKey& key,
                                   const io::StopToken& stop) {
  const Identity identity{std::string(kind.plural), key};
  if (!found_.contains(identity) && !labelled_.contains(identity)) return {};
  base::Status status;
  for (int i = 0; i < kTries; ++i) {
    const auto object = client_->Get(kind, key, stop);
    if (!object) {
      if (object.error().code == base::Code::kNotFound) return {};
      return base::Fail(object.error());
    }
    const auto fields = desired::TakenOverFields(*object);
    if (!fields) return {};
    // The version makes it a refusal when somebody was faster.
    const Json patch = {
        {{"op", "replace"}, {"path", "/metadata/managedFields"}, {"value", *fields}},
        {{"op", "replace"},
         {"path", "/metadata/resourceVersion"},
         {"value", codec::FindString(*object, {"metadata", "resourceVersion"})}}};
    const auto patched =
        client_->Patch(kind, key, kube::PatchType::kJson, patch,
                       {.field_manager = std::string(desired::kFieldManager)}, stop);
    if (patched) {
      base::LogInfo("taken over", {{"kind", kind.kind}, {"name", key.ToString()}});
      return {};
    }
    status = base::Fail(patched.error());
    if (patched.error().code != base::Code::kConflict) break;
  }
  return status;
}

std::vector<desired::StandingObject> Predecessor::Leftovers(const kube::ResourceKind& kind) const {
  std::vector<desired::StandingObject> leftovers;
  for (const auto& [identity, found] : found_) {
    if (identity.first != kind.plural || found.owner_uid != owner_uid_) continue;
    leftovers.push_back(found);
    leftovers.back().kind = &kind;
  }
  return leftovers;
}

void Predecessor::Forget(const kube::ResourceKind& kind, const kube::ObjectKey& key) {
  found_.erase({std::string(kind.plural), key});
  labelled_.erase({std::string(kind.plural), key});
}

}  // namespace pitcrew::gpu_operator
