// What becomes of a change when the API server does not take it.
#include "node/own_node/own_node.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "loopback/scripted_server.h"

namespace pitcrew::node::own_node {
namespace {

// How often a server that refuses once with this status is asked.
int Tries(int status) {
  std::atomic<int> tries = 0;
  auto server =
      pitcrew::testing::ScriptedServer::Start([&](const auto&, auto& reply, const io::StopToken&) {
        ++tries == 1 ? reply.Send(status, R"({"kind": "Status"})")
                     : reply.Send(200, R"({"metadata": {"resourceVersion": "2"}})");
      });
  EXPECT_TRUE(server);
  // Without the client's own tries.
  const auto client =
      kube::Client::Create({.server = (*server)->url()}, {.limits = {.retry = {.attempts = 1}}});
  EXPECT_TRUE(client);
  const OwnNode node(*client, {.node_name = "n", .component = "test-manager", .pod_name = "p"});
  const auto started = std::chrono::steady_clock::now();
  const auto patched = node.Patch(LabelPatch("a", "1"), {});
  if (tries > 1) {
    EXPECT_GE(std::chrono::steady_clock::now() - started, std::chrono::seconds(1))
        << status << ": a server in trouble is left alone for a while";
  }
  EXPECT_EQ(patched.has_value(), tries == 2) << status;
  return tries;
}

TEST(OwnNode, WhatMayPassIsTriedAgain) {
  const std::vector<int> statuses = {409, 429, 500, 503, 504};
  std::vector<int> tries(statuses.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      threads.emplace_back([&, i] { tries[i] = Tries(statuses[i]); });
    }
  }
  for (std::size_t i = 0; i < statuses.size(); ++i) EXPECT_EQ(tries[i], 2) << statuses[i];
}

TEST(OwnNode, WhatWillNotIsNot) {
  for (const int status : {403, 404, 422}) EXPECT_EQ(Tries(status), 1) << status;
}

}  // namespace
}  // namespace pitcrew::node::own_node
