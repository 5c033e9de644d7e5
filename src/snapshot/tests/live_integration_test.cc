// Snapshots of a real API server.
#include "snapshot/live.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apiserver/api_server.h"
#include "snapshot/connection.h"

namespace pitcrew::snapshot {
namespace {

using codec::Json;
using pitcrew::testing::ApiServer;

constexpr kube::ResourceKind kGadgets{"example.com", "v1", "gadgets", "Gadget"};
constexpr kube::WriteOptions kWriter{.field_manager = "test", .subresource = {}};

class LiveTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto client = ApiServer::Shared().MakeClient();
    for (const char* name : {"one", "two"}) {
      ASSERT_TRUE(client->Create(kube::kNamespaces, {{"metadata", {{"name", name}}}}, kWriter));
      for (const char* map : {"a", "b"}) {
        ASSERT_TRUE(client->Create(kube::kConfigMaps,
                                   {{"metadata", {{"name", map}, {"namespace", name}}}}, kWriter));
      }
    }
    // More than a page.
    for (int i = 0; i < 1100; ++i) {
      const Json node = {{"metadata", {{"name", "node-" + std::to_string(i)}}}};
      ASSERT_TRUE(client->Create(kube::kNodes, node, kWriter));
    }
  }
  static std::uint64_t Requests(const kube::Client& client, const std::string& verb) {
    std::uint64_t requests = 0;
    for (const auto& [what, count] : client.request_counts()) {
      if (what.first == verb) requests += count;
    }
    return requests;
  }
};

TEST_F(LiveTest, ReadsKindsInPagesAndNames) {
  const auto client = ApiServer::Shared().MakeClient();
  const std::vector<Query> queries{
      {.kind = kube::kNodes},
      {.kind = kube::kConfigMaps, .namespace_name = "one"},
      {.kind = kube::kSecrets, .namespace_name = "one", .name = "missing"},
      {.kind = kGadgets}};
  const auto snapshot = ReadLive(*client, queries);
  ASSERT_TRUE(snapshot) << snapshot.error().ToString();
  EXPECT_EQ(snapshot->All(kube::kNodes).size(), 1100U);
  EXPECT_EQ(snapshot->coverage(kube::kNodes), Coverage::kRead);
  EXPECT_GE(Requests(*client, "list"), 4U);
  const Json* node = snapshot->FindPresent(kube::kNodes, {.namespace_name = "", .name = "node-7"});
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(codec::FindString(*node, {"kind"}), "Node");
  EXPECT_EQ(codec::Find(*node, {"metadata", "managedFields"}), nullptr);
  EXPECT_TRUE(
      snapshot->Find(kube::kConfigMaps, {.namespace_name = "one", .name = "a"}).is_present());
  EXPECT_FALSE(snapshot->FindPresent(kube::kConfigMaps, {.namespace_name = "two", .name = "a"}));
  EXPECT_TRUE(
      snapshot->Find(kube::kSecrets, {.namespace_name = "one", .name = "missing"}).is_absent());
  EXPECT_TRUE(snapshot->Find(kube::kSecrets, {.namespace_name = "one", .name = "x"}).is_unknown());
  EXPECT_EQ(snapshot->coverage(kGadgets), Coverage::kNotServed);
  EXPECT_THAT(snapshot->server_version(), ::testing::StartsWith("v1."));
}

// What may not be read is unknown, and says why.
TEST_F(LiveTest, ForbiddenIsUnknown) {
  kube::Config config = ApiServer::Shared().config();
  config.credentials =
      kube::StaticCredentials({.bearer_token = ApiServer::Shared().stranger_token()});
  const auto client = kube::Client::Create(config);
  ASSERT_TRUE(client);
  const std::vector<Query> queries{
      {.kind = kube::kNodes},
      {.kind = kube::kSecrets, .namespace_name = "one", .name = "some"},
      {.kind = kGadgets}};
  const auto snapshot = ReadLive(**client, queries);
  ASSERT_TRUE(snapshot) << snapshot.error().ToString();
  EXPECT_EQ(snapshot->coverage(kube::kNodes), Coverage::kUnknown);
  ASSERT_NE(snapshot->error(kube::kNodes), nullptr);
  EXPECT_EQ(snapshot->error(kube::kNodes)->code, base::Code::kDenied);
  EXPECT_THAT(snapshot->error(kube::kNodes)->message, ::testing::HasSubstr("nodes"));
  EXPECT_TRUE(
      snapshot->Find(kube::kSecrets, {.namespace_name = "one", .name = "some"}).is_unknown());
  // Forbidden too, but everybody is told that there is no such kind.
  EXPECT_EQ(snapshot->coverage(kGadgets), Coverage::kNotServed);
}

// A server that does not answer is one error, not one for every kind.
TEST_F(LiveTest, NoServerIsAnError) {
  kube::Config config = ApiServer::Shared().config("https://127.0.0.1:1");
  kube::ClientOptions options;
  options.limits.retry.attempts = 1;
  const auto client = kube::Client::Create(config, options);
  ASSERT_TRUE(client);
  const std::vector<Query> queries{{.kind = kube::kNodes}};
  const auto snapshot = ReadLive(**client, queries);
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().code, base::Code::kUnavailable);
}

TEST_F(LiveTest, ConnectsWithAKubeconfigAndAContext) {
  const std::string file = ApiServer::Shared().kubeconfig().string();
  EXPECT_TRUE(Connect({.kubeconfig = file, .context = ""}));
  const auto wrong = Connect({.kubeconfig = file, .context = "no-such-context"});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, ::testing::HasSubstr("no-such-context"));
}

}  // namespace
}  // namespace pitcrew::snapshot
