#include "node/qualification/tell.h"

#include <algorithm>

#include "base/clock.h"

namespace pitcrew::node::qualification {
namespace {

api::Qualification Now(api::QualificationState state, std::string message) {
  api::Qualification told;
  told.state = state;
  told.time = base::FormatRfc3339(base::WallClock::now());
  told.message = std::move(message);
  return told;
}

}  // namespace

bool IsHeld(const codec::Json& node) {
  const codec::Json* taints = codec::Find(node, {"spec", "taints"});
  return taints != nullptr && taints->is_array() &&
         std::ranges::any_of(*taints, [](const codec::Json& taint) {
           return api::IsNotQualifiedTaint(codec::FindString(taint, {"key"}),
                                           codec::FindString(taint, {"effect"}));
         });
}

std::string BootOf(const codec::Json& node) {
  return codec::FindString(node, {"status", "nodeInfo", "bootID"});
}

std::optional<api::QualificationState> StandingResult(const codec::Json& node, const Found& found) {
  const auto told = api::ParseQualification(own_node::AnnotationOf(node, api::kQualification));
  if (!told || told->driver_version != found.driver_version) return std::nullopt;
  std::vector<std::string> tested;
  for (const auto& gpu : told->gpus) tested.push_back(gpu.uuid);
  if (tested.empty() || !std::ranges::is_permutation(tested, found.uuids)) return std::nullopt;
  if (told->state == api::QualificationState::kPassed) return told->state;
  const bool same_boot = !told->boot_id.empty() && told->boot_id == BootOf(node);
  if (told->state == api::QualificationState::kFailed && same_boot) return told->state;
  return std::nullopt;
}

base::Status Teller::Write(const api::Qualification& qualification, const io::StopToken& stop) {
  const std::string key(api::kQualification);
  const codec::Json metadata = {{"labels", {{key, ToString(qualification.state)}}},
                                {"annotations", {{key, api::ToText(qualification)}}}};
  return node_.Patch({{"metadata", metadata}}, stop);
}

base::Status Teller::TellRunning(const Found& found, const io::StopToken& stop) {
  auto told = Now(api::QualificationState::kRunning, "GPUs are tested");
  told.driver_version = found.driver_version;
  told.boot_id = boot_;
  return Write(told, stop);
}

base::Status Teller::TellResult(const Report& report, const io::StopToken& stop) {
  if (report.passed()) {
    node_.Record(kube::EventType::kNormal, "QualificationPassed", report.Summary());
  } else {
    node_.Record(kube::EventType::kWarning, "QualificationFailed", report.Summary());
  }
  api::Qualification told = ForNode(report);
  told.boot_id = boot_;
  return Write(told, stop);
}

base::Status Teller::TellStanding(api::QualificationState state, const io::StopToken& stop) {
  return node_.Patch(own_node::LabelPatch(api::kQualification, std::string(ToString(state))), stop);
}

base::Status Teller::Forget(const io::StopToken& stop) {
  const std::string key(api::kQualification);
  const codec::Json metadata = {{"labels", {{key, nullptr}}}, {"annotations", {{key, nullptr}}}};
  return node_.Patch({{"metadata", metadata}}, stop);
}

base::Status Teller::TellNotDone(const base::Error& why, const io::StopToken& stop) {
  const std::string message = "the GPUs were not tested: " + why.message;
  node_.Record(kube::EventType::kWarning, "QualificationNotDone", message);
  return Write(Now(api::QualificationState::kFailed, message), stop);
}

}  // namespace pitcrew::node::qualification
