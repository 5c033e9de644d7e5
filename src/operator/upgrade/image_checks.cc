#include "operator/upgrade/image_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/labels.h"
#include "base/log.h"
#include "desired/owned_object.h"
#include "driver_upgrade/gates.h"
#include "kube/projection.h"
#include "operator/metrics/collectors.h"
#include "operator/upgrade/node_event.h"

namespace pitcrew::gpu_operator {
namespace {

using driver_upgrade::ImageVerdict;
using driver_upgrade::Member;
using driver_upgrade::Succession;
using driver_upgrade::Sync;

// The server could not be asked, or not well: that says nothing about the pod.
bool MayPass(const base::Error& error) {
  switch (error.code) {
    case base::Code::kUnavailable:
    case base::Code::kTooMany:
    case base::Code::kTimeout:
    case base::Code::kConflict:  // of a quota that is being counted
      return true;
    default:
      return false;
  }
}

}  // namespace

ImageChecks::ImageChecks(World& world, kube::EventRecorder& events, const DriverPods& pods)
    : world_(world),
      events_(events),
      pods_(pods),
      watch_(world.client, kube::kPods, kube::ProjectJson<Pod>(driver_upgrade::ReadImageCheckPod),
             {.namespace_name = world.operator_namespace,
              .label_selector =
                  fmt::format("{}={}", api::kAppLabel, driver_upgrade::kImageCheckApp)}) {}

void ImageChecks::Watch(kube::Controller& controller, std::function<void()> changed) {
  changed_ = std::move(changed);
  controller.Watch<Pod>(watch_, [this](const auto&, const auto&) { changed_(); });
}

void ImageChecks::BeginPass(base::WallClock::time_point now) {
  now_ = now;
  questions_.clear();
  name_of_node_.clear();
  read_.clear();
  look_again_.reset();
}

void ImageChecks::LookAt(const desired::Node& node, const DriverPods::View& view, Member& member) {
  if (view.pod == nullptr || view.sync == Sync::kUnknown) {
    if (driver_upgrade::IsWaiting(member)) member.image_check = driver_upgrade::kUnknownDriver;
    return;
  }
  if (view.newest_revision.empty()) {
    // An orphan; where a pod waits to take its place, the revision of that one is not seen yet.
    if (view.waiting != nullptr && driver_upgrade::IsWaiting(member)) {
      member.image_check = driver_upgrade::kUnknownDriver;
    }
    return;
  }
  const driver_upgrade::DriverPod& next =
      view.succession == Succession::kNone ? *view.pod : *view.waiting;
  const std::string name = driver_upgrade::ImageCheckName(
      next.owner_uid, view.newest_revision,
      driver_upgrade::KindOfNode([&](std::string_view key) { return node.labels.Get(key); }));
  if (view.sync == Sync::kInSync) {
    if (view.pod->ready) proven_.insert(name);
    return;
  }
  const bool has_image = view.restarts_only && view.sync == Sync::kOutdated;
  if (has_image || !driver_upgrade::IsWaiting(member)) return;
  member.image_check = name;
  name_of_node_[member.name] = name;
  questions_.try_emplace(
      name, Question{.daemonset = pods_.DaemonSetOf(next), .daemonset_uid = next.owner_uid});
}

void ImageChecks::LookAgainAt(base::WallClock::time_point time) {
  look_again_ = look_again_ ? std::min(*look_again_, time) : time;
}

void ImageChecks::Note(const Pod& pod, const ImageVerdict& verdict) {
  using enum ImageVerdict::State;
  switch (verdict.state) {
    case kUnderWay:
      return;
    case kGood:
      base::LogInfo("the images of a driver can be had", {{"pod", pod.name}, {"node", pod.node}});
      proven_.insert(pod.name);
      trouble_.erase(pod.name);
      return;
    case kUnknown:
      GiveUp(pod.name, pod.node, verdict.says);
      return;
    case kNoImage:
    case kMissing:
      break;
  }
  Trouble& told = trouble_[pod.name];
  if (verdict.between_tries && told.container == verdict.container) return;
  const Trouble trouble{.text = driver_upgrade::TroubleOf(pod, verdict),
                        .container = verdict.container};
  if (std::exchange(told, trouble) != trouble) Tell(pod.node, trouble.text);
}

std::string ImageChecks::Read(const std::string& name) {
  if (const auto found = read_.find(name); found != read_.end()) return found->second;
  const auto pod = watch_.store().Find({.namespace_name = world_.operator_namespace, .name = name});
  if (!pod.is_present()) return "";
  started_.erase(name);
  const Pod& view = **pod.value();
  const ImageVerdict verdict = driver_upgrade::JudgeImage(view, now_);
  Note(view, verdict);
  if (IsAnswered(name)) return "";
  if (verdict.until && *verdict.until > now_) LookAgainAt(*verdict.until);
  // One whose time is up is taken away, and made anew when it is gone.
  if (!verdict.until || *verdict.until > now_) read_[name] = view.node;
  return view.node;
}

void ImageChecks::Answer(std::vector<Member>& members) {
  for (Member& member : members) {
    if (member.image_check.empty()) continue;
    if (!IsAnswered(member.image_check)) member.image_checked_at = Read(member.image_check);
    if (IsAnswered(member.image_check)) {
      member.image_check.clear();
      continue;
    }
    if (const auto found = trouble_.find(member.image_check); found != trouble_.end()) {
      member.image_trouble = found->second.text;
      member.image_trouble_of = found->second.container;
    }
  }
}

base::Status ImageChecks::Start(const std::vector<std::string>& nodes, const io::StopToken& stop) {
  base::Status all;
  for (const std::string& node : nodes) {
    const auto name = name_of_node_.find(node);
    if (name == name_of_node_.end()) continue;
    auto started = StartOn(node, name->second, questions_.at(name->second), stop);
    if (started) continue;
    if (MayPass(started.error())) {
      all = std::move(started);
    } else if (!stop.stopped()) {
      GiveUp(name->second, node, started.error().message);
    }
  }
  return all;
}

base::Status ImageChecks::StartOn(const std::string& node, const std::string& name,
                                  const Question& question, const io::StopToken& stop) {
  const auto first = started_.try_emplace(name, now_).first->second;
  LookAgainAt(first + driver_upgrade::kUntilSeen);
  if (now_ >= first + driver_upgrade::kUntilSeen) {
    return base::Fail(base::Error{base::Code::kInternal, "PodNotSeen",
                                  fmt::format("pod {} could not be made in {} minutes", name,
                                              driver_upgrade::kUntilSeen.count())});
  }
  const auto daemonset = world_.client->Get(
      kube::kDaemonSets, {.namespace_name = world_.operator_namespace, .name = question.daemonset},
      stop);
  if (!daemonset && daemonset.error().code != base::Code::kNotFound) {
    return base::Fail(daemonset.error());
  }
  // Another one, or none: the watches tell.
  if (!daemonset || codec::FindString(*daemonset, {"metadata", "uid"}) != question.daemonset_uid) {
    return {};
  }
  TRY_ASSIGN(const auto pod, driver_upgrade::ImageCheckPod(*daemonset, name, node));
  read_[name] = node;  // the watch may show it before the pass ends
  const auto created = world_.client->Create(
      kube::kPods, pod, {.field_manager = std::string(desired::kFieldManager)}, stop);
  if (created) {
    base::LogInfo("the image of a new driver is looked at", {{"node", node}, {"pod", name}});
    return {};
  }
  if (created.error().code == base::Code::kExists) return {};  // of an operator before this one
  return base::Fail(created.error());
}

void ImageChecks::GiveUp(const std::string& name, const std::string& node, const std::string& why) {
  given_up_.insert(name);
  trouble_.erase(name);
  started_.erase(name);
  base::LogWarning("the image of a driver is not looked at", {{"node", node}, {"why", why}});
  Tell(node,
       fmt::format("The upgrade goes on without a look at the image of the new driver: {}", why));
  changed_();
}

void ImageChecks::Tell(const std::string& node, const std::string& message) {
  TellOfNode(events_, node, kube::EventType::kWarning, message);
}

std::optional<std::chrono::nanoseconds> ImageChecks::EndPass(const io::StopToken& stop) {
  for (const auto& [key, pod] : watch_.store().Snapshot()) {
    if (pod == nullptr || pod->deleting || read_.contains(key.name)) continue;
    const auto deleted = world_.client->Delete(kube::kPods, key, {.uid = pod->uid}, stop);
    const bool gone = deleted || deleted.error().code == base::Code::kNotFound ||
                      deleted.error().code == base::Code::kConflict;
    if (!gone) base::LogWarning("a pod that looked at an image stays", deleted.error());
  }
  std::erase_if(trouble_, [&](const auto& entry) { return !questions_.contains(entry.first); });
  std::erase_if(started_, [&](const auto& entry) { return !questions_.contains(entry.first); });
  if (!look_again_) return std::nullopt;
  return std::max<std::chrono::nanoseconds>(*look_again_ - now_, std::chrono::milliseconds(1));
}

void ImageChecks::Expose(prom::Exposition& exposition) const {
  ExposeWatch("image check pods", watch_.status(), watch_.store().size(), exposition);
}

}  // namespace pitcrew::gpu_operator
