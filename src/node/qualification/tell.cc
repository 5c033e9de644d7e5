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

bool Stands(const codec::Json& node, const Found& found) {
  const auto told = api::ParseQualification(own_node::AnnotationOf(node, api::kQualification));
  if (!told || told->state != api::QualificationState::kPassed ||
      told->driver_version != found.driver_version) {
    return false;
  }
  std::vector<std::string> tested;
  for (const auto& gpu : told->gpus) tested.push_back(gpu.uuid);
  return std::ranges::is_permutation(tested, found.uuids);
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
  return Write(told, stop);
}

base::Status Teller::TellResult(const Report& report, const io::StopToken& stop) {
  if (report.passed()) {
    node_.Record(kube::EventType::kNormal, "QualificationPassed", report.Summary());
  } else {
    node_.Record(kube::EventType::kWarning, "QualificationFailed", report.Summary());
  }
  return Write(ForNode(report), stop);
}

base::Status Teller::TellNotDone(const base::Error& why, const io::StopToken& stop) {
  const std::string message = "the GPUs were not tested: " + why.message;
  node_.Record(kube::EventType::kWarning, "QualificationNotDone", message);
  return Write(Now(api::QualificationState::kFailed, message), stop);
}

}  // namespace pitcrew::node::qualification
