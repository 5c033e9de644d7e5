#include "kube/client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "apiserver/api_server.h"
#include "base/file.h"
#include "kube/informer.h"
#include "kube/projection.h"
#include "loopback/certificate.h"
#include "loopback/scripted_server.h"
#include "loopback/tcp_proxy.h"
#include "support_changes.h"
#include "tests/support/patience.h"

namespace pitcrew::kube {
namespace {

using base::Code;
using codec::Json;
using testing::ApiServer;
using testing::TcpProxy;

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    space_ = "client-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
             std::to_string(++counter_);
    EnsureNamespace(*client_, space_);
  }
  Json ConfigMap(const std::string& name, const std::string& value = "1") const {
    return MakeConfigMap(space_, name, value);
  }
  ObjectKey Key(const std::string& name) const { return {.namespace_name = space_, .name = name}; }

  static int counter_;
  std::shared_ptr<Client> client_;
  std::string space_;
};
int ClientTest::counter_ = 0;

TEST_F(ClientTest, TellsVersionAndWhatIsServed) {
  const auto version = client_->Version();
  ASSERT_TRUE(version) << version.error().message;
  EXPECT_EQ(version->major, 1);
  EXPECT_GE(version->minor, 30);
  EXPECT_EQ(client_->Serves(kDaemonSets), true);
  EXPECT_EQ(client_->Serves({"example.com", "v1", "widgets", "Widget"}), false);
  EXPECT_EQ(client_->Serves({"apps", "v1", "widgets", "Widget"}), false);
  EXPECT_EQ(client_->GetRaw("/readyz"), "ok");
}

// Providers add to the number; which digit it ends with does not matter.
TEST_F(ClientTest, TellsTheNumberOfAVersionThatAProviderAddsTo) {
  const auto server =
      testing::ScriptedServer::Start([](const auto&, auto& reply, const io::StopToken&) {
        reply.Send(200, R"({"major": "1", "minor": "29+", "gitVersion": "v1.29.9-eks-a1b2c3"})");
      });
  ASSERT_TRUE(server);
  const auto client = Client::Create({.server = (*server)->url()});
  ASSERT_TRUE(client);
  const auto version = (*client)->Version();
  ASSERT_TRUE(version) << version.error().message;
  EXPECT_EQ(version->major, 1);
  EXPECT_EQ(version->minor, 29);
}

TEST_F(ClientTest, CreatesReadsAndDeletes) {
  const auto created = client_->Create(kConfigMaps, ConfigMap("one"));
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_EQ(client_->Create(kConfigMaps, ConfigMap("one")).error().code, Code::kExists);
  const auto read = client_->Get(kConfigMaps, Key("one"));
  ASSERT_TRUE(read);
  EXPECT_EQ(codec::FindString(*read, {"data", "value"}), "1");
  const auto other = client_->Delete(kConfigMaps, Key("one"), {.uid = "some-other-uid"});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kConflict);
  const auto older = client_->Delete(kConfigMaps, Key("one"), {.resource_version = "1"});
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().code, Code::kConflict);
  EXPECT_TRUE(client_->Delete(kConfigMaps, Key("one"),
                              {.uid = codec::FindString(*read, {"metadata", "uid"})}));
  const auto gone = client_->Get(kConfigMaps, Key("one"));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::kNotFound);
  EXPECT_EQ(gone.error().reason, "NotFound");
  EXPECT_EQ(client_->Delete(kConfigMaps, Key("one")).error().code, Code::kNotFound);
}

TEST_F(ClientTest, AnUnservedKindIsNoEvidenceOfAbsence) {
  const ResourceKind widgets{"example.com", "v1", "widgets", "Widget"};
  const auto answer = client_->Get(widgets, Key("one"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnsupported);
  EXPECT_EQ(answer.error().reason, "ResourceNotServed");
}

TEST_F(ClientTest, ListsPageByPage) {
  for (int i = 0; i < 25; ++i) {
    ASSERT_TRUE(client_->Create(kConfigMaps, ConfigMap("map-" + std::to_string(i))));
  }
  const auto before = client_->request_counts()[{"list", 200}];
  const auto list = client_->List(kConfigMaps, space_, {.page_size = 10});
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(list->items.size(), 25U);
  EXPECT_FALSE(list->resource_version.empty());
  EXPECT_EQ(codec::FindString(list->items.front(), {"kind"}), "ConfigMap");
  EXPECT_EQ((client_->request_counts()[{"list", 200}] - before), 3U);
}

TEST_F(ClientTest, AStaleUpdateIsAConflict) {
  const auto created = client_->Create(kConfigMaps, ConfigMap("one"));
  ASSERT_TRUE(created);
  Json mine = *created;
  mine["data"]["value"] = "2";
  const auto updated = client_->Update(kConfigMaps, mine);
  ASSERT_TRUE(updated) << updated.error().message;
  mine["data"]["value"] = "3";
  const auto stale = client_->Update(kConfigMaps, mine);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, Code::kConflict);
  EXPECT_EQ(stale.error().reason, "Conflict");
}

TEST_F(ClientTest, PatchesInEveryForm) {
  ASSERT_TRUE(client_->Create(kConfigMaps, ConfigMap("one")));
  const auto value = [&](const base::Result<Json>& answer) {
    return answer ? codec::FindString(*answer, {"data", "value"}) : answer.error().message;
  };
  EXPECT_EQ(value(client_->Patch(kConfigMaps, Key("one"), PatchType::kMerge,
                                 {{"data", {{"value", "merge"}}}})),
            "merge");
  EXPECT_EQ(value(client_->Patch(kConfigMaps, Key("one"), PatchType::kStrategicMerge,
                                 {{"data", {{"value", "strategic"}}}})),
            "strategic");
  const Json replace =
      Json::array({{{"op", "test"}, {"path", "/data/value"}, {"value", "strategic"}},
                   {{"op", "replace"}, {"path", "/data/value"}, {"value", "json"}}});
  EXPECT_EQ(value(client_->Patch(kConfigMaps, Key("one"), PatchType::kJson, replace)), "json");
  const auto failed = client_->Patch(kConfigMaps, Key("one"), PatchType::kJson, replace);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kInvalid);
}

// Only a refusal makes calls slower (Resilience.ARefusalMakesThePaceSlower); what is answered does
// not.
TEST_F(ClientTest, AnAnswerIsNoRefusalToThePace) {
  ASSERT_TRUE(client_->Create(kConfigMaps, ConfigMap("one")));
  CallPace pace;
  {
    auto first = pace.Begin();
    const auto second = pace.Begin();
    for (int i = 0; pace.limit() == 2 && i < 1000; ++i)
      first.Answered(std::chrono::milliseconds(10));
  }
  const int before = pace.limit();
  ASSERT_GT(before, 2);
  // The first calls after a change count for the limit of before.
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(client_->PatchVersion(kConfigMaps, Key("one"), PatchType::kMerge,
                                      {{"data", {{"value", "2"}}}}, {}, {}, &pace));
  }
  EXPECT_EQ(pace.limit(), before);
}

TEST_F(ClientTest, APatchMayAnswerWithTheVersionAlone) {
  const ObjectKey key = Key("one");
  ASSERT_TRUE(client_->Create(kConfigMaps, ConfigMap("one")));
  CallPace pace;
  const auto version = client_->PatchVersion(kConfigMaps, key, PatchType::kMerge,
                                             {{"data", {{"value", "2"}}}}, {}, {}, &pace);
  ASSERT_TRUE(version) << version.error().ToString();
  const auto stored = client_->Get(kConfigMaps, key);
  ASSERT_TRUE(stored);
  EXPECT_EQ(*version, codec::FindString(*stored, {"metadata", "resourceVersion"}));
  EXPECT_EQ(codec::FindString(*stored, {"data", "value"}), "2");
  // The server left the rest out.
  Request request =
      PatchRequest(kConfigMaps, key, PatchType::kMerge, {{"data", {{"value", "3"}}}}, {});
  request.metadata_only = true;
  const auto answer = client_->Send(request, {});
  ASSERT_TRUE(answer);
  EXPECT_EQ(codec::FindString(*codec::ParseJson(*answer), {"kind"}), "PartialObjectMetadata");
  const auto missing = client_->PatchVersion(kConfigMaps, Key("missing"), PatchType::kMerge, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, base::Code::kNotFound);
}

TEST_F(ClientTest, ApplyKeepsManagersApartAndForces) {
  const auto first = client_->Apply(kConfigMaps, ConfigMap("one"), {.field_manager = "a"});
  ASSERT_TRUE(first) << first.error().message;
  const auto conflict = client_->Apply(kConfigMaps, ConfigMap("one", "2"), {.field_manager = "b"});
  ASSERT_FALSE(conflict);
  EXPECT_EQ(conflict.error().code, Code::kConflict);
  EXPECT_NE(conflict.error().message.find("\"a\""), std::string::npos);
  const auto forced =
      client_->Apply(kConfigMaps, ConfigMap("one", "2"), {.field_manager = "b", .force = true});
  ASSERT_TRUE(forced) << forced.error().message;
  const auto again =
      client_->Apply(kConfigMaps, ConfigMap("one", "2"), {.field_manager = "b", .force = true});
  ASSERT_TRUE(again);
  EXPECT_EQ(codec::FindString(*forced, {"metadata", "resourceVersion"}),
            codec::FindString(*again, {"metadata", "resourceVersion"}));
  EXPECT_EQ(client_->Apply(kConfigMaps, ConfigMap("one"), {}).error().reason,
            "MissingFieldManager");
}

TEST_F(ClientTest, WritesTheStatusSubresource) {
  const Json node{{"metadata", {{"name", space_}}}};
  ASSERT_TRUE(client_->Create(kNodes, node));
  const Json status{
      {"status", {{"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
  const auto patched = client_->Patch(kNodes, {.name = space_}, PatchType::kMerge, status,
                                      {.subresource = "status"});
  ASSERT_TRUE(patched) << patched.error().message;
  EXPECT_EQ((*patched)["status"]["conditions"][0]["type"], "Ready");
  EXPECT_TRUE(client_->Delete(kNodes, {.name = space_}));
}

TEST_F(ClientTest, AFreshCustomResourceIsServedWithoutCeremony) {
  const Json crd{
      {"metadata", {{"name", "gadgets.example.org"}}},
      {"spec",
       {{"group", "example.org"},
        {"scope", "Cluster"},
        {"names", {{"plural", "gadgets"}, {"kind", "Gadget"}, {"listKind", "GadgetList"}}},
        {"versions", Json::array({{{"name", "v1"},
                                   {"served", true},
                                   {"storage", true},
                                   {"schema",
                                    {{"openAPIV3Schema",
                                      {{"type", "object"},
                                       {"x-kubernetes-preserve-unknown-fields", true}}}}}}})}}}};
  ASSERT_TRUE(client_->Create(kCustomResourceDefinitions, crd));
  const ResourceKind gadgets{"example.org", "v1", "gadgets", "Gadget", false};
  // Being served is an event of the CRD's status; its storage may even then refuse with 429.
  Informer<Json> definitions(
      client_, kCustomResourceDefinitions,
      ProjectJson<Json>([](const Json& object) -> base::Result<Json> { return object; }));
  std::mutex mutex;
  std::condition_variable changed;
  bool established = false;
  definitions.AddHandler([&](const Change<Json>& change) {
    const Json* conditions =
        change.now ? codec::Find(*change.now, {"status", "conditions"}) : nullptr;
    if (conditions == nullptr) return;
    for (const Json& condition : *conditions) {
      if (condition["type"] != "Established" || condition["status"] != "True") continue;
      const std::scoped_lock lock(mutex);
      established = true;
      changed.notify_all();
    }
  });
  definitions.Start();
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, test_support::kPatience, [&] { return established; }));
  }
  const auto created = client_->Create(gadgets, {{"metadata", {{"name", "one"}}}});
  ASSERT_TRUE(created) << created.error().ToString();
  definitions.Stop();
  EXPECT_TRUE(client_->Delete(kCustomResourceDefinitions, {.name = "gadgets.example.org"}));
}

TEST_F(ClientTest, SaysWhoIsDeniedWhat) {
  auto& server = ApiServer::Shared();
  auto config = server.config();
  config.credentials = StaticCredentials({.bearer_token = server.stranger_token()});
  const auto stranger = Client::Create(config);
  const auto denied = (*stranger)->List(kSecrets, "");
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::kDenied);
  EXPECT_EQ(denied.error().reason, "Forbidden");
  EXPECT_NE(denied.error().message.find("stranger"), std::string::npos);

  config.credentials = StaticCredentials({.bearer_token = "nonsense"});
  const auto nobody = Client::Create(config);
  const auto refused = (*nobody)->List(kSecrets, "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_EQ(refused.error().reason, "Unauthorized");
}

TEST_F(ClientTest, ProvesItselfWithAClientCertificate) {
  auto& server = ApiServer::Shared();
  auto config = server.config();
  config.credentials = StaticCredentials({.client_certificate_pem = server.client_certificate_pem(),
                                          .client_key_pem = server.client_key_pem()});
  const auto certified = Client::Create(config);
  const auto list = (*certified)->List(kNamespaces, "");
  EXPECT_TRUE(list) << list.error().message;
}

TEST_F(ClientTest, ChecksTheServersCertificate) {
  auto& server = ApiServer::Shared();
  const auto other = testing::MakeCertificate({.common_name = "other", .authority = true});
  ASSERT_TRUE(other);
  auto config = server.config();
  config.ca_pem = other->certificate_pem;
  const auto answer = (*Client::Create(config))->Version();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kDenied);
  EXPECT_EQ(answer.error().reason, "TlsFailed");
  config.insecure_skip_tls_verify = true;
  EXPECT_TRUE((*Client::Create(config))->Version());

  auto named = server.config();
  named.tls_server_name = "apiserver.test";
  const auto right = (*Client::Create(named))->Version();
  EXPECT_TRUE(right) << right.error().message;
  named.tls_server_name = "elsewhere.test";
  const auto wrong = (*Client::Create(named))->Version();
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().reason, "TlsFailed");
}

TEST_F(ClientTest, FollowsARotatedToken) {
  auto& server = ApiServer::Shared();
  const auto file = server.folder() / (space_ + ".token");
  ASSERT_TRUE(base::WriteFileAtomically(file, server.admin_token() + "\n"));
  const std::string text = "clusters: [{name: c, cluster: {server: \"" + server.url() +
                           "\", certificate-authority: ca.crt}}]\n"
                           "users: [{name: u, user: {tokenFile: \"" +
                           file.filename().string() +
                           "\"}}]\n"
                           "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
                           "current-context: x\n";
  const auto config = ParseKubeconfig(text, "test", server.folder());
  ASSERT_TRUE(config) << config.error().message;
  const auto client = Client::Create(*config);
  ASSERT_TRUE((*client)->List(kNamespaces, ""));
  ASSERT_TRUE(base::WriteFileAtomically(file, "no-longer-valid"));
  const auto refused = (*client)->List(kNamespaces, "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "Unauthorized");
  ASSERT_TRUE(base::WriteFileAtomically(file, server.other_admin_token()));
  EXPECT_TRUE((*client)->List(kNamespaces, ""));
}

TEST_F(ClientTest, AllCallsShareOneConnection) {
  auto& server = ApiServer::Shared();
  const auto proxy = TcpProxy::Start(server.port());
  ASSERT_TRUE(proxy);
  const auto client = Client::Create(server.config((*proxy)->https_url()));
  ASSERT_TRUE((*client)->Version());
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&, i] {
      for (int k = 0; k < 10; ++k) {
        const auto name = "map-" + std::to_string(i) + "-" + std::to_string(k);
        if (!(*client)->Create(kConfigMaps, ConfigMap(name))) ++failures;
        if (!(*client)->List(kConfigMaps, space_, {.page_size = 50})) ++failures;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ((*proxy)->accepted(), 1);
  EXPECT_EQ((*client)->List(kConfigMaps, space_)->items.size(), 160U);
}

TEST_F(ClientTest, AStopEndsACallThatWaits) {
  const Request watch = WatchRequest(kConfigMaps, space_, {.resource_version = ""});
  const io::StopSource stop;
  auto stream = client_->OpenStream(watch, std::chrono::minutes(5), stop.token());
  ASSERT_TRUE(stream) << stream.error().message;
  std::thread stopper([&] { stop.Stop(); });
  for (;;) {
    const auto bytes = (*stream)->Next();
    if (bytes && *bytes) continue;
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().code, Code::kCancelled);
    break;
  }
  stopper.join();
  EXPECT_EQ(client_->Version(stop.token()).error().code, Code::kCancelled);
}

}  // namespace
}  // namespace pitcrew::kube
