#include "apiserver/unsteady_writer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "apiserver/api_server.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "support/patience.h"

namespace pitcrew::testing {
namespace {

using codec::Json;
using Moment = std::chrono::steady_clock;

constexpr const char* kReads = "unsteady-writer-reads";
constexpr const char* kWrites = "unsteady-writer-writes";

Json Rule(const Json& group, const Json& resources, const Json& verbs) {
  return {{"apiGroups", Json::array({group})}, {"resources", resources}, {"verbs", verbs}};
}

}  // namespace

UnsteadyWriter::UnsteadyWriter(std::string node)
    : admin_(ApiServer::Shared().MakeClient()), node_(std::move(node)) {
  auto config = ApiServer::Shared().config();
  config.credentials =
      kube::StaticCredentials({.bearer_token = ApiServer::Shared().stranger_token()});
  auto client = kube::Client::Create(std::move(config));
  if (!client) {
    ADD_FAILURE() << client.error().ToString();
    return;
  }
  client_ = *std::move(client);
  const auto read = Json::array({"get", "list", "watch"});
  const auto write = Json::array({"create", "update", "patch", "delete"});
  Grant(kReads, Json::array({Rule("*", Json::array({"*"}), read),
                             Rule("", Json::array({"pods", "events", "configmaps"}), write)}));
  const auto deadline = Moment::now() + test_support::kPatience;
  while (!client_->Get(kube::kNodes, {"", node_}) && Moment::now() < deadline) {
  }
}

UnsteadyWriter::~UnsteadyWriter() {
  for (const auto* role : {kReads, kWrites}) {
    // The second one may not be there.
    (void)admin_->Delete(kube::kClusterRoleBindings, {"", role});
    (void)admin_->Delete(kube::kClusterRoles, {"", role});
  }
}

void UnsteadyWriter::Allow() {
  Grant(kWrites, Json::array({Rule("", Json::array({"nodes"}), Json::array({"patch", "update"}))}));
  const auto deadline = Moment::now() + test_support::kPatience;
  while (!MayWrite()) ASSERT_LT(Moment::now(), deadline);
}

void UnsteadyWriter::Grant(const std::string& role, const Json& rules) {
  const auto made =
      admin_->Create(kube::kClusterRoles, {{"metadata", {{"name", role}}}, {"rules", rules}});
  ASSERT_TRUE(made) << made.error().ToString();
  const auto bound = admin_->Create(
      kube::kClusterRoleBindings,
      {{"metadata", {{"name", role}}},
       {"roleRef",
        {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", role}}},
       {"subjects", Json::array({{{"kind", "User"},
                                  {"name", "stranger"},
                                  {"apiGroup", "rbac.authorization.k8s.io"}}})}});
  ASSERT_TRUE(bound) << bound.error().ToString();
}

// By a patch that changes nothing.
bool UnsteadyWriter::MayWrite() const {
  return client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge, Json::object())
      .has_value();
}

bool WaitForNodeEvent(const std::shared_ptr<kube::Client>& client, const std::string& node,
                      std::string_view reason) {
  kube::InformerOptions about;
  about.field_selector = "involvedObject.kind=Node,involvedObject.name=" + node;
  const auto come = kube::Await<std::string>(
      client, kube::kEvents, kube::ProjectJson<std::string>([](const Json& event) {
        return base::Result<std::string>(codec::FindString(event, {"reason"}));
      }),
      about,
      [&](const kube::Store<std::string>& store) -> base::Result<bool> {
        for (const auto& [key, seen] : store.Snapshot()) {
          if (*seen == reason) return true;
        }
        return false;
      },
      {}, base::Deadline::After(test_support::kPatience));
  EXPECT_TRUE(come) << come.error().ToString();
  return come.has_value();
}

}  // namespace pitcrew::testing
