#include "desired/conditions.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

constexpr std::size_t kLongestMessage = 32768;  // of a condition, by the schema

}  // namespace

Conditions::Conditions(std::int64_t generation, const Json& previous,
                       base::WallClock::time_point now)
    : generation_(generation), previous_(previous), now_(base::FormatRfc3339(now)) {}

void Conditions::Add(std::string_view type, bool is_true, std::string_view reason,
                     std::string_view message) {
  AddStatus(type, is_true ? "True" : "False", reason, message);
}

void Conditions::AddStatus(std::string_view type, const std::string& status,
                           std::string_view reason, std::string_view message) {
  std::string since = now_;
  if (const Json* known = Find(previous_, type);
      known != nullptr && codec::FindString(*known, {"status"}) == status) {
    since = codec::FindString(*known, {"lastTransitionTime"}, now_);
  }
  list_.push_back({{"type", type},
                   {"status", status},
                   {"reason", reason},
                   {"message", message.substr(0, kLongestMessage)},
                   {"observedGeneration", generation_},
                   {"lastTransitionTime", since}});
}

void Conditions::AddError(std::string_view reason, std::string_view message) {
  Add("Ready", false, "Error", "");
  Add("Error", true, reason, message);
}

void Conditions::AddReady(std::string_view reason, std::string_view message) {
  Add("Ready", true, reason, message);
  Add("Error", false, "Ready", "");
}

const Json* Conditions::Find(const Json& status, std::string_view type) {
  const Json* conditions = codec::Find(status, {"conditions"});
  if (conditions == nullptr || !conditions->is_array()) return nullptr;
  for (const Json& condition : *conditions) {
    if (codec::FindString(condition, {"type"}) == type) return &condition;
  }
  return nullptr;
}

}  // namespace pitcrew::desired
