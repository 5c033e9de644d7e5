#include "operator/policy/status_writer.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "desired/owned_object.h"
#include "desired/status.h"

namespace pitcrew::gpu_operator {

using codec::Json;

namespace {

// The API server takes no metadata from a patch of a custom resource's status: a uid in it would
// hold nothing back from an object that was made again under the same name. A test does.
Json PatchOfStatus(const std::string& uid, const Json& status) {
  return Json::array({{{"op", "test"}, {"path", "/metadata/uid"}, {"value", uid}},
                      {{"op", "add"}, {"path", "/status"}, {"value", status}}});
}

}  // namespace

StatusWriter::StatusWriter(
    std::shared_ptr<kube::Client> client, const kube::ResourceKind& kind,
    kube::EventRecorder& events, std::chrono::milliseconds interval,
    std::function<void(const std::string& name, std::chrono::nanoseconds)> later)
    : client_(std::move(client)),
      kind_(kind),
      events_(events),
      interval_(interval),
      later_(std::move(later)) {}

base::Status StatusWriter::Write(const StatusSubject& subject,
                                 const std::function<Json(const Json& previous)>& make,
                                 const io::StopToken& stop) {
  Written& written = written_[subject.owner.uid];
  const Json previous = written.version > subject.version ? written.status : subject.status;
  const Json status = make(previous);
  if (status == previous) return {};
  if (const auto age = base::SteadyClock::now() - written.at;
      desired::OnlyMessagesDiffer(status, previous) && age < interval_) {
    later_(subject.owner.name, interval_ - age);
    return {};
  }
  const kube::ObjectKey key{.namespace_name = "", .name = subject.owner.name};
  const auto patched = client_->Patch(
      kind_, key, kube::PatchType::kJson, PatchOfStatus(subject.owner.uid, status),
      {.field_manager = std::string(desired::kFieldManager), .subresource = "status"}, stop);
  if (!patched) {
    if (IsGone(key, subject.owner.uid, patched.error(), stop)) return {};
    return base::Fail(patched.error().Within(
        fmt::format("write the status of {} {}", subject.owner.kind, subject.owner.name)));
  }
  const Json* stored = codec::Find(*patched, {"status"});
  written = {
      .status = stored == nullptr ? Json() : *stored,
      .version = base::ParseUnsigned(codec::FindString(*patched, {"metadata", "resourceVersion"}))
                     .value_or(0),
      .at = base::SteadyClock::now()};
  RecordTransitions(subject, previous, status);
  return {};
}

bool StatusWriter::IsGone(const kube::ObjectKey& key, const std::string& uid,
                          const base::Error& refused, const io::StopToken& stop) {
  if (refused.code == base::Code::kNotFound) return true;
  // The server does not say which operation of a patch it could not do.
  if (refused.code != base::Code::kInvalid) return false;
  const auto standing = client_->Get(kind_, key, stop);
  if (!standing) return standing.error().code == base::Code::kNotFound;
  return codec::FindString(*standing, {"metadata", "uid"}) != uid;
}

void StatusWriter::RecordTransitions(const StatusSubject& subject, const Json& before,
                                     const Json& after) {
  const std::vector<desired::Transition> transitions = desired::TransitionsBetween(before, after);
  for (const desired::Transition& transition : transitions) {
    base::LogInfo("condition changed", {{"kind", subject.owner.kind},
                                        {"name", subject.owner.name},
                                        {"condition", transition.type},
                                        {"status", transition.is_true ? "True" : "False"},
                                        {"reason", transition.reason},
                                        {"message", transition.message}});
  }
  for (const desired::Announcement& announcement : desired::Announce(transitions)) {
    events_.Record(
        {.about = {.api_version = subject.owner.api_version,
                   .kind = subject.owner.kind,
                   .key = {.namespace_name = "", .name = subject.owner.name},
                   .uid = subject.owner.uid,
                   .resource_version = std::to_string(subject.version)},
         .type = announcement.warning ? kube::EventType::kWarning : kube::EventType::kNormal,
         .reason = announcement.reason,
         .message = announcement.message});
  }
}

}  // namespace pitcrew::gpu_operator
