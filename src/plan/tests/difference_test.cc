// Differences between what stands and what would be applied.
#include "plan/difference.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "desired/owned_object.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Lines(const std::vector<FieldChange>& changes) {
  std::vector<std::string> lines;
  for (const FieldChange& change : changes) {
    const auto text = [](const std::optional<Json>& value) {
      return value ? codec::ToJsonText(*value) : "(none)";
    };
    lines.push_back(
        fmt::format("{}: {} -> {}", change.path, text(change.before), text(change.after)));
  }
  return lines;
}

std::vector<std::string> Differences(const std::string& live, const std::string& desired) {
  const Json a = *codec::ParseYaml(live);
  const Json b = *codec::ParseYaml(desired);
  const auto changes = FieldChanges(a, b);
  EXPECT_EQ(changes.empty(), desired::Covers(a, b)) << live << " / " << desired;
  return Lines(changes);
}

TEST(Difference, DefaultsOfTheServerAreNone) {
  EXPECT_THAT(Differences("{a: 1, more: {x: y}}", "{a: 1}"), IsEmpty());
  EXPECT_THAT(Differences("{a: {b: c, d: e}}", "{a: {b: c}, empty: {}, none: null, text: ''}"),
              IsEmpty());
  EXPECT_THAT(Differences("{l: [{name: a, policy: Always}]}", "{l: [{name: a}]}"), IsEmpty());
}

TEST(Difference, QuantitiesAreComparedByTheirAmount) {
  EXPECT_THAT(Differences("{resources: {limits: {cpu: 500m, memory: 1Gi}}}",
                          "{resources: {limits: {cpu: 0.5, memory: 2Gi, gpu: 1}}}"),
              ElementsAre("resources.limits.gpu: (none) -> 1",
                          "resources.limits.memory: \"1Gi\" -> \"2Gi\""));
  EXPECT_THAT(
      Differences("{resources: {limits: {cpu: 500m}}}", "{resources: {limits: {cpu: 0.5}}}"),
      IsEmpty());
}

TEST(Difference, FieldsAreNamedByTheirPath) {
  EXPECT_THAT(Differences("{spec: {a: 1, b: {c: x}}}", "{spec: {a: 2, b: {c: x, d: true}}}"),
              ElementsAre("spec.a: 1 -> 2", "spec.b.d: (none) -> true"));
  EXPECT_THAT(Differences("{metadata: {labels: {a.b/c: x}}}", "{metadata: {labels: {a.b/c: z}}}"),
              ElementsAre("metadata.labels[a.b/c]: \"x\" -> \"z\""));
  EXPECT_THAT(Differences("{a: [1, 2]}", "{a: [1]}"), ElementsAre("a: [1,2] -> [1]"));
  EXPECT_THAT(Differences("{a: x}", "{a: {b: c}}"), ElementsAre("a: \"x\" -> {\"b\":\"c\"}"));
}

TEST(Difference, ItemsOfListsAreNamedByWhatNamesThem) {
  EXPECT_THAT(Differences("{env: [{name: A, value: '1'}, {name: B, value: '2'}]}",
                          "{env: [{name: A, value: '3'}, {name: C, value: '4'}]}"),
              ElementsAre("env[A].value: \"1\" -> \"3\"",
                          "env[C]: (none) -> {\"name\":\"C\",\"value\":\"4\"}",
                          "env[B]: {\"name\":\"B\",\"value\":\"2\"} -> (none)"));
  // Two mounts of one volume.
  EXPECT_THAT(Differences("{volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]}",
                          "{volumeMounts: [{name: v, mountPath: /a}]}"),
              ElementsAre("volumeMounts[/b]: {\"mountPath\":\"/b\",\"name\":\"v\"} -> (none)"));
  // The order counts too.
  EXPECT_EQ(Differences("{env: [{name: A}, {name: B}]}", "{env: [{name: B}, {name: A}]}").size(),
            2U);
}

// An apply that no longer mentions a field removes it, when the field is the applier's.
TEST(Difference, FieldsThatWereOursAreAbandoned) {
  const Json live = *codec::ParseYaml(R"(
metadata:
  labels: {ours: a, kept: b, theirs: c}
  managedFields:
  - manager: ours
    operation: Apply
    fieldsV1:
      f:metadata: {f:labels: {.: {}, f:ours: {}, f:kept: {}}}
      f:spec:
        f:containers:
          k:{"name":"main"}: {.: {}, f:name: {}, f:args: {}}
        f:paused: {}
  - manager: ours
    operation: Update
    subresource: status
    fieldsV1: {f:status: {f:ready: {}}}
  - manager: other
    fieldsV1: {f:metadata: {f:labels: {f:theirs: {}}}}
spec:
  paused: true
  containers: [{name: main, args: [x], image: i}]
status: {ready: 1}
)");
  const Json desired = *codec::ParseYaml(
      "{metadata: {labels: {kept: b}}, spec: {containers: [{name: main, image: i}]}}");
  EXPECT_THAT(Lines(AbandonedFields(live, desired, {"ours"})),
              ElementsAre("metadata.labels.ours: \"a\" -> (none)",
                          "spec.containers[main].args: "
                          "[\"x\"] -> (none)",
                          "spec.paused: true -> (none)"));
  EXPECT_THAT(AbandonedFields(live, desired, {"nobody"}), IsEmpty());
  EXPECT_THAT(AbandonedFields(live, live, {"ours", "other"}), IsEmpty());
}

TEST(Difference, MetadataIsComparedWhole) {
  const Json live = *codec::ParseYaml("{metadata: {labels: {a: x, b: v}, annotations: {c: z}}}");
  const Json after = *codec::ParseYaml("{metadata: {labels: {a: x, b: w}}}");
  EXPECT_THAT(
      Lines(MetadataChanges(live, after)),
      ElementsAre("metadata.labels.b: \"v\" -> \"w\"", "metadata.annotations.c: \"z\" -> (none)"));
}

}  // namespace
}  // namespace pitcrew::plan
