// The limits over all nodes: how many may begin, and which.
#include "driver_upgrade/wave.h"

#include "base/strings.h"
#include "support_cases.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::Json;

constexpr std::string_view kNow = "2026-03-02T12:00:00Z";  // a Monday

// A node that has completed its upgrade to `revision` so many seconds ago.
Record RecordOf(const std::string& revision, int seconds_ago) {
  return {.revision = revision,
          .finished = *base::ParseRfc3339(kNow) - std::chrono::seconds(seconds_ago),
          .duration = std::nullopt};
}

// "zone=a", "version=v1", "proven=30": completed so many seconds ago; "missing=r/d:9": its image.
void ReadSetting(const std::string& word, Member& member) {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const std::string value = word.substr(equals + 1);
  if (name == "zone") member.domain = value;
  if (name == "version") member.version = value;
  if (name == "missing") member.missing_image = value;
  if (name == "proven") member.record = RecordOf(member.version, std::stoi(value));
  if (name == "record") member.record = RecordOf(value, 0);
}

// {pods: "3 upgrade-required, 2 cordoned upgrade-done"}: so many nodes in a state, named n01,
// n02...
std::vector<Member> MembersOf(const std::string& text) {
  std::vector<Member> members;
  for (const std::string& group : base::Split(text, ',')) {
    int count = 0;
    Member member;
    member.pods_ready = true;
    for (const std::string& word : base::Split(group, ' ')) {
      if (word.empty()) continue;
      if (word.contains('=')) {
        ReadSetting(word, member);
        continue;
      }
      if (const auto number = base::ParseUnsigned(word)) {
        count = static_cast<int>(*number);
      } else if (word == "cordoned") {
        member.unschedulable = true;
      } else if (word == "skipped") {
        member.skipped = true;
      } else if (word == "not-ready") {
        member.not_ready = true;
      } else if (word == "pods-not-ready") {
        member.pods_ready = false;
      } else if (word == "has-image") {
        member.has_image = true;
      } else if (word == "outdated") {
        member.outdated = true;
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
  api::UpgradePolicy policy = testing::PolicyOf(given.value("policy", Json::object()));
  if (given.contains("approved")) policy.schedule.canary.approved = {given["approved"]};
  const auto now = base::ParseRfc3339(given.value("now", std::string(kNow)));
  const Wave wave = PlanWave(MembersOf(given["nodes"]), policy, *now);
  Json told = {{"granted", base::Join(wave.granted, " ")}};
  if (!wave.held.empty()) told["held"] = wave.held;
  if (wave.look_again) told["look-again"] = base::FormatRfc3339(*wave.look_again);
  if (wave.needs_person && !wave.held.contains("have failed")) told["needs-person"] = true;
  if (wave.image_missing) told["image-missing"] = true;
  if (given["then"].contains("waiting")) {
    for (const auto& [why, nodes] : wave.waiting) told["waiting"][why] = base::Join(nodes, " ");
  }
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
