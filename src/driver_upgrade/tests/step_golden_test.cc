// The state machine of a node: what is done next, by what is seen.
#include "driver_upgrade/step.h"

#include <optional>

#include "support_cases.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::Json;
using testing::PolicyOf;

Sync SyncNamed(const std::string& name) {
  if (name == "in-sync") return Sync::kInSync;
  if (name == "outdated") return Sync::kOutdated;
  if (name == "orphaned") return Sync::kOrphaned;
  EXPECT_EQ(name, "unknown");
  return Sync::kUnknown;
}

Removal RemovalOf(const Json& given) {
  const std::string state = given.value("state", "");
  Removal removal{.pods = given.value("pods", 0), .why = given.value("why", "")};
  if (state == "under-way") removal.state = Removal::State::kUnderWay;
  if (state == "done") removal.state = Removal::State::kDone;
  if (state == "failed") removal.state = Removal::State::kFailed;
  return removal;
}

const char* NameOf(Work work) {
  switch (work) {
    case Work::kNone:
      return "";
    case Work::kWatchJobs:
      return "watch-jobs";
    case Work::kRemoveGpuPods:
      return "remove-gpu-pods";
    case Work::kDrain:
      return "drain";
    case Work::kDeleteDriverPod:
      return "delete-driver-pod";
    case Work::kHandOverPod:
      return "hand-over-pod";
  }
  return "?";
}

// Only what is to be done.
Json Describe(const Step& step) {
  Json told = Json::object();
  if (step.to) {
    told["to"] = *step.to == api::UpgradeState::kNone ? Json(nullptr) : Json(api::NameOf(*step.to));
  }
  for (const auto& [key, value] : step.annotations) {
    told["annotations"][testing::BriefOf(key)] = value ? Json(*value) : Json(nullptr);
  }
  if (step.unschedulable) told["unschedulable"] = *step.unschedulable;
  if (step.work != Work::kNone) told["work"] = NameOf(step.work);
  for (const Note& note : step.events) {
    told["events"].push_back((note.warning ? "Warning " : "Normal ") + note.message);
  }
  if (step.look_again) told["look-again"] = step.look_again->count();
  if (!step.waits_for.empty()) told["waits-for"] = step.waits_for;
  return told;
}

Json Decide(const Json& given) {
  const auto node = desired::ReadNode(testing::NodeOf(given.value("node", Json::object())));
  EXPECT_TRUE(node) << node.error().ToString();
  std::optional<DriverPod> pod;
  NodeFacts facts{
      .node = *node,
      .pod = nullptr,
      .now = base::WallClock::time_point(std::chrono::seconds(given.value("now", 1000)))};
  if (given.contains("pod")) {
    const Json& seen = given["pod"];
    pod.emplace();
    pod->name = "driver-1";
    pod->ready = seen.value("ready", false);
    pod->failing = seen.value("failing", false);
    pod->deleting = seen.value("deleting", false);
    facts.pod = &*pod;
    facts.sync = SyncNamed(seen.value("sync", "unknown"));
    facts.restarts_only = seen.value("restarts-only", false);
    facts.newest_revision = "r2";
    const std::string successor = seen.value("successor", "");
    if (successor == "same") facts.succession = Succession::kSame;
    if (successor == "other") facts.succession = Succession::kOther;
  }
  facts.granted = given.value("granted", false);
  if (given.contains("jobs")) {
    facts.jobs = given["jobs"] == "running" ? Jobs::kRunning : Jobs::kNone;
  }
  facts.gpu_pods = RemovalOf(given.value("gpu-pods", Json::object()));
  facts.drain = RemovalOf(given.value("drain", Json::object()));
  if (given.contains("validators")) {
    facts.validators = given["validators"]["pods"];
    facts.validators_ready = given["validators"]["ready"];
  }
  return Describe(DecideStep(facts, PolicyOf(given.value("policy", Json::object()))));
}

TEST(StepGolden, EveryStateDoesWhatItsCasesSay) { testing::RunCases("steps", Decide); }

TEST(StepGolden, ReleasingLeavesTheNodeAsItWasFound) {
  testing::RunCases("releases", [](const Json& given) {
    const auto node = desired::ReadNode(testing::NodeOf(given["node"]));
    EXPECT_TRUE(node) << node.error().ToString();
    return Describe(DecideRelease(*node));
  });
}

}  // namespace
}  // namespace pitcrew::driver_upgrade
