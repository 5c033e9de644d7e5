// The limits over all nodes: how many may begin, and which.
#include "driver_upgrade/wave.h"

#include "base/strings.h"
#include "support_cases.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::Json;

// {pods: "3 upgrade-required, 2 cordoned upgrade-done"}: so many nodes in a state, named n01,
// n02...
std::vector<Member> MembersOf(const std::string& text) {
  std::vector<Member> members;
  for (const std::string& group : base::Split(text, ',')) {
    int count = 0;
    Member member;
    for (const std::string& word : base::Split(group, ' ')) {
      if (word.empty()) continue;
      if (const auto number = base::ParseUnsigned(word)) {
        count = static_cast<int>(*number);
      } else if (word == "cordoned") {
        member.unschedulable = true;
      } else if (word == "skipped") {
        member.skipped = true;
      } else if (word == "not-ready") {
        member.not_ready = true;
      } else if (word == "granted") {
        member.granted = true;
      } else if (word != "new") {
        member.state = api::UpgradeStateNamed(word);
      }
    }
    for (; count > 0; --count) {
      const std::size_t number = members.size() + 1;
      member.name = (number < 10 ? "n0" : "n") + std::to_string(number);
      members.push_back(member);
    }
  }
  return members;
}

Json DecideWave(const Json& given) {
  const Wave wave =
      PlanWave(MembersOf(given["nodes"]), testing::PolicyOf(given.value("policy", Json::object())));
  Json told = {{"granted", base::Join(wave.granted, " ")}};
  if (!wave.held.empty()) told["held"] = wave.held;
  const Json all = {{"total", wave.total},         {"in-progress", wave.in_progress},
                    {"done", wave.done},           {"failed", wave.failed},
                    {"pending", wave.pending},     {"unavailable", wave.unavailable},
                    {"available", wave.available}, {"max-unavailable", wave.max_unavailable}};
  // Only the numbers that the case is about.
  for (const auto& [name, number] : given["then"].items()) {
    if (all.contains(name)) told[name] = all[name];
  }
  return told;
}

TEST(WaveGolden, LimitsHold) { testing::RunCases("waves", DecideWave); }

}  // namespace
}  // namespace pitcrew::driver_upgrade
