#include "api/qualification.h"

#include <algorithm>

#include "codec/json.h"

namespace pitcrew::api {
namespace {

using codec::Json;

constexpr std::size_t kMostFailures = 4;
constexpr std::size_t kLongestText = 400;

constexpr std::pair<QualificationState, std::string_view> kStates[] = {
    {QualificationState::kPending, "pending"},
    {QualificationState::kRunning, "running"},
    {QualificationState::kPassed, "passed"},
    {QualificationState::kFailed, "failed"}};

std::string Cut(const std::string& text) { return text.substr(0, kLongestText); }

std::vector<std::string> Texts(const Json& object, std::string_view name) {
  std::vector<std::string> texts;
  const Json* list = codec::Find(object, {name});
  if (list == nullptr || !list->is_array()) return texts;
  for (const auto& item : *list) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

QualifiedGpu ReadGpu(const Json& object) {
  QualifiedGpu gpu;
  const Json* index = codec::Find(object, {"index"});
  if (index != nullptr && index->is_number_unsigned()) gpu.index = index->get<unsigned>();
  gpu.uuid = codec::FindString(object, {"uuid"});
  gpu.name = codec::FindString(object, {"name"});
  gpu.passed = codec::FindString(object, {"state"}) == "passed";
  gpu.failures = Texts(object, "failures");
  return gpu;
}

}  // namespace

std::string_view ToString(QualificationState state) {
  const auto* found =
      std::ranges::find(kStates, state, &std::pair<QualificationState, std::string_view>::first);
  return found == std::end(kStates) ? "" : found->second;
}

std::optional<QualificationState> ParseQualificationState(std::string_view word) {
  const auto* found =
      std::ranges::find(kStates, word, &std::pair<QualificationState, std::string_view>::second);
  if (found == std::end(kStates)) return std::nullopt;
  return found->first;
}

std::string ToText(const Qualification& qualification) {
  Json object = {{"state", ToString(qualification.state)},
                 {"time", qualification.time},
                 {"message", Cut(qualification.message)}};
  if (!qualification.driver_version.empty()) {
    object["driverVersion"] = qualification.driver_version;
  }
  if (!qualification.boot_id.empty()) object["bootID"] = qualification.boot_id;
  for (const auto& gpu : qualification.gpus) {
    Json told = {{"index", gpu.index},
                 {"uuid", gpu.uuid},
                 {"name", gpu.name},
                 {"state", gpu.passed ? "passed" : "failed"}};
    for (std::size_t i = 0; i < gpu.failures.size() && i < kMostFailures; ++i) {
      told["failures"].push_back(Cut(gpu.failures[i]));
    }
    object["gpus"].push_back(std::move(told));
  }
  return codec::ToJsonText(object);
}

std::optional<Qualification> ParseQualification(std::string_view text) {
  const auto object = codec::ParseJson(text, kQualification);
  if (!object || !object->is_object()) return std::nullopt;
  const auto state = ParseQualificationState(codec::FindString(*object, {"state"}));
  if (!state) return std::nullopt;
  Qualification qualification;
  qualification.state = *state;
  qualification.time = codec::FindString(*object, {"time"});
  qualification.driver_version = codec::FindString(*object, {"driverVersion"});
  qualification.boot_id = codec::FindString(*object, {"bootID"});
  qualification.message = codec::FindString(*object, {"message"});
  const Json* gpus = codec::Find(*object, {"gpus"});
  if (gpus != nullptr && gpus->is_array()) {
    for (const auto& gpu : *gpus) qualification.gpus.push_back(ReadGpu(gpu));
  }
  return qualification;
}

}  // namespace pitcrew::api
