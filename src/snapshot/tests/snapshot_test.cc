// Snapshots from text (issue: FILE is a YAML stream or List of the objects that exist).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "snapshot/file.h"
#include "snapshot/snapshot.h"
#include "support/temporary_folder.h"

namespace pitcrew::snapshot {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr kube::ResourceKind kProxies{"config.openshift.io", "v1", "proxies", "Proxy", false};

kube::ObjectKey Key(const std::string& name_space, const std::string& name) {
  return {.namespace_name = name_space, .name = name};
}

base::Result<Snapshot> ParseText(std::string_view text, std::string_view source) {
  Snapshot snapshot(std::string(source), /*complete=*/true);
  TRY(VisitText(text, source, [&](codec::Json object) { return snapshot.Add(std::move(object)); }));
  return snapshot;
}

TEST(SnapshotFile, StreamAndListsAreRead) {
  const auto snapshot = ParseText(R"(# a comment first
---
apiVersion: v1
kind: Node
metadata: {name: gpu-1, managedFields: [{manager: kubelet}]}
status: {images: [{names: [a]}], nodeInfo: {kubeletVersion: v1.35.0}}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}, data: {k: "---"}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: y}}
--- # more of them, without their own type as the API server sends them
apiVersion: config.openshift.io/v1
kind: ProxyList
items: [{metadata: {name: cluster}}]
---
apiVersion: example.com/v1
kind: Gadget
metadata: {name: unknown-kinds-are-kept}
)",
                                  "cluster.yaml");
  ASSERT_TRUE(snapshot) << snapshot.error().ToString();
  const codec::Json* node = snapshot->FindPresent(kube::kNodes, Key("", "gpu-1"));
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(codec::FindString(*node, {"status", "nodeInfo", "kubeletVersion"}), "v1.35.0");
  EXPECT_EQ(codec::Find(*node, {"status", "images"}), nullptr);
  EXPECT_EQ(codec::Find(*node, {"metadata", "managedFields"}), nullptr);
  EXPECT_EQ(snapshot->All(kube::kConfigMaps).size(), 2U);
  EXPECT_TRUE(snapshot->Find(kProxies, Key("", "cluster")).is_present());
  EXPECT_TRUE(snapshot->kinds().contains(KindName{.group = "example.com", .kind = "Gadget"}));
  EXPECT_EQ(snapshot->coverage(kube::kNodes), Coverage::kRead);
  EXPECT_EQ(snapshot->server_version(), "");
}

// A file is the whole cluster: what is not in it does not exist.
TEST(SnapshotFile, WhatIsNotInAFileIsAbsent) {
  const auto snapshot = ParseText("", "empty.yaml");
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->coverage(kube::kNodes), Coverage::kNotMentioned);
  EXPECT_TRUE(snapshot->Find(kube::kNodes, Key("", "x")).is_absent());
  EXPECT_TRUE(snapshot->All(kube::kNodes).empty());
}

TEST(SnapshotFile, JsonIsRead) {
  const auto snapshot = ParseText(
      R"({"kind":"List","apiVersion":"v1","items":[
          {"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}]})",
      "cluster.json");
  ASSERT_TRUE(snapshot) << snapshot.error().ToString();
  EXPECT_EQ(snapshot->All(kube::kNodes).size(), 1U);
}

std::string ErrorOf(std::string_view text) {
  const auto snapshot = ParseText(text, "cluster.yaml");
  return snapshot ? "" : snapshot.error().message;
}

TEST(SnapshotFile, ErrorsNameThePlace) {
  constexpr std::string_view kFirst = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\n";
  EXPECT_THAT(ErrorOf(std::string(kFirst) + "kind: Node\nmetadata: [\n"),
              StartsWith("cluster.yaml:7:"));
  EXPECT_EQ(ErrorOf(std::string(kFirst) + "kind: Node\nmetadata: {name: a}\n"),
            "cluster.yaml: document at line 4: the object has no apiVersion");
  EXPECT_EQ(ErrorOf(std::string(kFirst) + "apiVersion: v1\nkind: Node\n"),
            "cluster.yaml: document at line 4: the Node has no metadata.name");
  EXPECT_EQ(ErrorOf(std::string(kFirst) + std::string(kFirst)),
            "cluster.yaml: document at line 4: Node a stands here a second time");
  EXPECT_EQ(ErrorOf(std::string(kFirst) + "kind: List\napiVersion: v1\nitems: [7]\n"),
            "cluster.yaml: document at line 4, item 1: this is not a Kubernetes object");
  EXPECT_THAT(ErrorOf("just text"), HasSubstr("not a Kubernetes object"));
}

TEST(SnapshotFile, ReadsFilesAndNamesMissingOnes) {
  const test_support::TemporaryFolder folder;
  const auto path =
      folder.Write("a.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: gpu-operator}}");
  std::vector<std::string> names;
  const auto visit = [&](const codec::Json& object) {
    names.push_back(kube::KeyOf(object).name);
    return base::Status();
  };
  const auto visited = VisitFile(path.string(), visit);
  ASSERT_TRUE(visited) << visited.error().ToString();
  EXPECT_THAT(names, ::testing::ElementsAre("gpu-operator"));
  const auto missing = VisitFile((folder.path() / "b.yaml").string(), visit);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("b.yaml"));
}

// "Unknown is not absent": of a cluster, only what was read and not found is missing.
TEST(Snapshot, UnknownIsNotAbsent) {
  Snapshot snapshot("a cluster", /*complete=*/false);
  EXPECT_TRUE(snapshot.Find(kube::kNodes, Key("", "a")).is_unknown());
  snapshot.SetUnknown(kube::kNodes, base::Error{base::Code::kDenied, "Forbidden", "no nodes"});
  EXPECT_EQ(snapshot.Find(kube::kNodes, Key("", "a")).error()->message, "no nodes");
  ASSERT_NE(snapshot.error(kube::kNodes), nullptr);
  snapshot.SetCoverage(kProxies, Coverage::kNotServed);
  EXPECT_TRUE(snapshot.Find(kProxies, Key("", "cluster")).is_absent());
  snapshot.SetMissing(kube::kSecrets, Key("x", "a"));
  snapshot.SetUnknown(kube::kSecrets, Key("x", "b"), base::Unavailable("Slow", "no answer"));
  EXPECT_TRUE(snapshot.Find(kube::kSecrets, Key("x", "a")).is_absent());
  EXPECT_TRUE(snapshot.Find(kube::kSecrets, Key("x", "b")).is_unknown());
  EXPECT_TRUE(snapshot.Find(kube::kSecrets, Key("x", "c")).is_unknown());
}

TEST(Snapshot, KindsAreNamedAsPeopleNameThem) {
  EXPECT_EQ(KindNameOf(kube::kRoles).ToString(), "Role");
  EXPECT_EQ(KindNameOf(kube::kDaemonSets).ToString(), "DaemonSet");
  EXPECT_EQ(KindNameOf(kProxies).ToString(), "Proxy.config.openshift.io");
}

}  // namespace
}  // namespace pitcrew::snapshot
