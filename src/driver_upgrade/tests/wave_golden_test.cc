// The limits over all nodes: how many may begin, and which.
#include "driver_upgrade/wave.h"

#include "base/strings.h"
#include "driver_upgrade/looks.h"
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

// Its metrics were looked at so many seconds ago, and nothing was wrong.
MetricsNote NoteOf(const Record& record, int seconds_ago) {
  return {.revision = record.revision,
          .finished = record.finished,
          .looked = *base::ParseRfc3339(kNow) - std::chrono::seconds(seconds_ago),
          .first = GpuReadings{}};
}

// "zone=a", "version=v1", "missing=r/d:9": its image; "check=k1": what has to be looked at;
// "checked-at=n01"; "trouble=no": what was found, "trouble-of=c": of another container.
// "proven=30": completed so many seconds ago, and its metrics have been looked at just now;
// "looked=20": so many seconds ago, "looked=never"; "against=XID": something was wrong;
// "unknown=off": why there was no look.
void ReadSetting(const std::string& word, Member& member) {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const std::string value = word.substr(equals + 1);
  if (name == "zone") member.domain = value;
  if (name == "version") member.version = value;
  if (name == "missing") {
    member.missing_image = value;
    member.missing_image_of = "nvidia-driver-ctr";
  }
  if (name == "check") member.image_check = value;
  if (name == "checked-at") member.image_checked_at = value;
  if (name == "trouble") {
    member.image_trouble = value;
    member.image_trouble_of = "nvidia-driver-ctr";
  }
  if (name == "trouble-of") member.image_trouble_of = value;
  if (name == "proven") {
    member.record = RecordOf(member.version, std::stoi(value));
    member.metrics = NoteOf(*member.record, 0);
  }
  if (name == "looked") {
    member.metrics.reset();
    if (value != "never") member.metrics = NoteOf(*member.record, std::stoi(value));
  }
  if (name == "against") member.metrics->against = value;
  if (name == "unknown") member.metrics->unknown = value;
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
  if (!wave.to_check.empty()) told["to-check"] = base::Join(wave.to_check, " ");
  if (wave.passes && given["then"].contains("passes")) told["passes"] = true;
  if (wave.look_again) told["look-again"] = base::FormatRfc3339(*wave.look_again);
  if (wave.blocker != Blocker::kNone) told["blocker"] = NameOf(wave.blocker);
  if (!wave.image_of.empty()) told["image-of"] = wave.image_of;
  if (given["then"].contains("blocked")) {
    told["blocked"] = Json::object();
    for (const auto& [blocker, nodes] : wave.blocked) told["blocked"][NameOf(blocker)] = nodes;
  }
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
  if (given["then"].contains("looks")) {
    const Looks looks = LooksOf(MembersOf(given["nodes"]), policy.schedule, *now);
    told["looks"] = base::Join(looks.due, " ");
    told["followed"] = base::Join({looks.followed.begin(), looks.followed.end()}, " ");
    if (looks.look_again) told["looks-again"] = base::FormatRfc3339(*looks.look_again);
  }
  return told;
}

TEST(WaveGolden, LimitsHold) { testing::RunCases("waves", DecideWave); }

}  // namespace
}  // namespace pitcrew::driver_upgrade
