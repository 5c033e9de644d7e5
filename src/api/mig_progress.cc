#include "api/mig_progress.h"

#include "base/strings.h"
#include "codec/json.h"

namespace pitcrew::api {
namespace {

using codec::Json;

// Names of pods that an annotation tells: there may be hundreds.
constexpr std::size_t kMostPods = 20;

void Put(Json& object, const char* name, const std::string& text) {
  if (!text.empty()) object[name] = text;
}

}  // namespace

std::string ToText(const MigProgress& progress) {
  Json object = Json::object();
  Put(object, "config", progress.config);
  Put(object, "phase", progress.phase);
  Put(object, "since", progress.since);
  Put(object, "deadline", progress.deadline);
  Put(object, "message", progress.message);
  for (std::size_t i = 0; i < progress.waiting_for.size() && i < kMostPods; ++i) {
    object["waitingFor"].push_back(progress.waiting_for[i]);
  }
  for (const auto& [position, step] : progress.gpus) {
    object["gpus"][std::to_string(position)] = step;
  }
  return codec::ToJsonText(object);
}

std::optional<MigProgress> ParseMigProgress(std::string_view text) {
  const auto object = codec::ParseJson(text, kMigConfigProgress);
  if (!object || !object->is_object()) return std::nullopt;
  MigProgress progress;
  progress.config = codec::FindString(*object, {"config"});
  progress.phase = codec::FindString(*object, {"phase"});
  progress.since = codec::FindString(*object, {"since"});
  progress.deadline = codec::FindString(*object, {"deadline"});
  progress.message = codec::FindString(*object, {"message"});
  if (const Json* pods = codec::Find(*object, {"waitingFor"});
      pods != nullptr && pods->is_array()) {
    for (const auto& pod : *pods) {
      if (pod.is_string()) progress.waiting_for.push_back(pod.get<std::string>());
    }
  }
  if (const Json* gpus = codec::Find(*object, {"gpus"}); gpus != nullptr && gpus->is_object()) {
    for (const auto& [name, step] : gpus->items()) {
      const auto position = base::ParseUnsigned(name);
      if (position && *position < 1024 && step.is_string()) {
        progress.gpus[static_cast<int>(*position)] = step.get<std::string>();
      }
    }
  }
  return progress;
}

}  // namespace pitcrew::api
