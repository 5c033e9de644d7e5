// Qualification of simulated GPUs, good ones and such with each fault: real processes on the
// simulated driver's libraries. What is told is read back from a real API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "api/qualification.h"
#include "apiserver/api_server.h"
#include "codec/json.h"
#include "host/process.h"
#include "node/own_node/own_node.h"
#include "tests/support/folders.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::qualification {
namespace {

using codec::Json;
using ::pitcrew::testing::ApiServer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class QualifyTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.InstallDriver(); }
  struct End {
    int status = -1;
    Json report;
    std::string errors;
  };
  End Qualify(std::vector<std::string> words) const {
    host::ProgramRun run;
    run.program = test_support::BuildFolder() / "bin/qualification_program";
    run.arguments = {"--memory", "8Mi", "-o", "json"};
    run.arguments.insert(run.arguments.end(), words.begin(), words.end());
    run.environment["LD_LIBRARY_PATH"] =
        (node_.driver_root() / "usr/lib/x86_64-linux-gnu").string();
    run.capture_output = true;
    const auto end = host::RunProgram(run);
    if (!end) {
      ADD_FAILURE() << end.error().message;
      return {};
    }
    const auto report = codec::ParseJson(end->output);
    return {end->exit_status, report.value_or(Json()), end->error_output};
  }
  // "failed" checks of a GPU, or of any other outcome.
  static std::vector<std::string> Checks(const Json& report, std::size_t gpu,
                                         std::string_view outcome) {
    std::vector<std::string> names;
    for (const auto& check : report.at("gpus").at(gpu).at("checks")) {
      if (check.at("outcome") == outcome) names.push_back(check.at("name"));
    }
    return names;
  }
  static std::string TextOf(const Json& report, std::size_t gpu, std::string_view name) {
    for (const auto& check : report.at("gpus").at(gpu).at("checks")) {
      if (check.at("name") == name) return check.at("message");
    }
    return "";
  }

  test_support::SimulatedNode node_{"gpus: [{profile: H100-80, count: 3, load: 80}]"};
};

TEST_F(QualifyTest, GoodGpusPass) {
  const auto end = Qualify({});
  EXPECT_EQ(end.status, 0) << end.errors;
  ASSERT_EQ(end.report.at("gpus").size(), 3u);
  EXPECT_EQ(end.report.at("verdict"), "passed");
  EXPECT_EQ(end.report.at("gpus")[0].at("model"), "H100-SXM5-80GB");
  for (std::size_t gpu = 0; gpu < 3; ++gpu) {
    EXPECT_THAT(
        Checks(end.report, gpu, "passed"),
        ElementsAre("memory", "host-to-device", "device-to-host", "device-memory", "gpu-to-gpu",
                    "pcie", "clocks", "ecc", "remapped-rows", "recovery", "nvlink"))
        << end.report.dump(1);
  }
  EXPECT_THAT(TextOf(end.report, 0, "memory"), HasSubstr("0.01 GiB hold 5 patterns"));
}

TEST_F(QualifyTest, EachFaultFailsItsOwnCheckOfItsOwnGpu) {
  node_.Gpu({"bad-memory", "0", "16", "--byte", "4096"});
  node_.Gpu({"pcie", "1", "--generation", "1", "--width", "4"});
  node_.Gpu({"throttle", "2", "hw-thermal"});
  node_.Gpu({"rows", "2", "--uncorrectable", "1", "--pending"});
  node_.Gpu({"ecc", "2", "--uncorrected"});
  node_.Gpu({"nvlink", "2", "7", "--down"});
  const auto end = Qualify({});
  EXPECT_EQ(end.status, 1);
  EXPECT_EQ(end.report.at("verdict"), "failed");
  EXPECT_THAT(Checks(end.report, 0, "failed"), ElementsAre("memory"));
  EXPECT_THAT(TextOf(end.report, 0, "memory"),
              HasSubstr("the first at byte 4096: written 0x00000000, read 0x00000010"));
  EXPECT_THAT(Checks(end.report, 1, "failed"),
              ElementsAre("host-to-device", "device-to-host", "pcie"));
  // A pending row is a reason for the driver to ask for a reset.
  EXPECT_THAT(Checks(end.report, 2, "failed"),
              ElementsAre("clocks", "ecc", "remapped-rows", "recovery", "nvlink"));
  EXPECT_THAT(TextOf(end.report, 2, "nvlink"), HasSubstr("down: 7"));
}

TEST_F(QualifyTest, AGpuThatHangsOrIsLostCostsTheOthersNothing) {
  node_.Gpu({"lose", "2"});
  node_.Gpu({"hang", "1"});
  const auto end = Qualify({"--deadline", "60s"});
  EXPECT_EQ(end.status, 1);
  ASSERT_EQ(end.report.at("gpus").size(), 3u) << end.errors;
  EXPECT_EQ(end.report.at("gpus")[0].at("verdict"), "passed");
  EXPECT_EQ(end.report.at("gpus")[1].at("verdict"), "failed");
  EXPECT_EQ(end.report.at("gpus")[2].at("verdict"), "failed");
  EXPECT_THAT(Checks(end.report, 1, "failed"), ElementsAre("readable"));
  EXPECT_THAT(TextOf(end.report, 1, "readable"), HasSubstr("does not return"));
}

TEST_F(QualifyTest, GpusInUseAreLeftAlone) {
  node_.Gpu({"process", "1", "4711"});
  const auto end = Qualify({});
  EXPECT_EQ(end.status, 1);
  EXPECT_THAT(end.errors, HasSubstr("GPU 1 by process 4711"));
  EXPECT_EQ(Qualify({"--even-if-used"}).status, 0);
}

TEST(Qualify, OfADividedGpuOnlyItsHealthIsLookedAt) {
  const test_support::SimulatedNode node(
      "gpus: [{profile: A100-40, mig: {enabled: true, devices: {2g.10gb: 1}}}]");
  node.InstallDriver();
  host::ProgramRun run;
  run.program = test_support::BuildFolder() / "bin/qualification_program";
  run.arguments = {"--memory", "8Mi"};
  run.environment["LD_LIBRARY_PATH"] = (node.driver_root() / "usr/lib/x86_64-linux-gnu").string();
  run.capture_output = true;
  const auto end = host::RunProgram(run);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_status, 0) << end->output << end->error_output;
  EXPECT_THAT(end->output, HasSubstr("memory          unknown  not measured: the GPU is divided"));
}

// --- What the Node tells ------------------------------------------------------------------------

class TellTest : public QualifyTest {
 protected:
  void SetUp() override {
    QualifyTest::SetUp();
    client_ = ApiServer::Shared().MakeClient();
    name_ = "qualify-" + std::to_string(++counter_);
    ASSERT_TRUE(client_->Create(kube::kNodes, {{"metadata", {{"name", name_}}}}));
  }
  End Tell(std::vector<std::string> words) const {
    words.insert(words.end(), {"--tell", "-n", name_, "--kubeconfig",
                               ApiServer::Shared().kubeconfig().string()});
    return Qualify(words);
  }
  [[nodiscard]] Json Node() const { return client_->Get(kube::kNodes, {"", name_}).value(); }
  [[nodiscard]] api::Qualification Told() const {
    return api::ParseQualification(own_node::AnnotationOf(Node(), api::kQualification))
        .value_or(api::Qualification());
  }
  [[nodiscard]] std::string Label() const { return own_node::LabelOf(Node(), api::kQualification); }
  void Merge(const Json& patch, const std::string& subresource = "") {
    const auto merged = client_->Patch(kube::kNodes, {"", name_}, kube::PatchType::kMerge, patch,
                                       {.field_manager = "test", .subresource = subresource});
    ASSERT_TRUE(merged) << merged.error().ToString();
  }
  void Hold() {
    const Json taint = {{"key", api::kNotQualifiedTaint}, {"effect", api::kNotQualifiedEffect}};
    Merge({{"spec", {{"taints", Json::array({taint})}}}});
  }
  void Boot(const std::string& id) {
    Merge({{"status", {{"nodeInfo", {{"bootID", id}}}}}}, "status");
  }
  void SetLabel(const std::string& state) {
    Merge({{"metadata", {{"labels", {{std::string(api::kQualification), state}}}}}});
  }
  [[nodiscard]] std::vector<std::string> EventReasons() const {
    kube::ListOptions about;
    about.field_selector = "involvedObject.name=" + name_;
    std::vector<std::string> reasons;
    const auto events = client_->List(kube::kEvents, "", about);
    if (!events) return {events.error().ToString()};
    for (const auto& event : events->items) {
      reasons.push_back(codec::FindString(event, {"reason"}));
    }
    return reasons;
  }

  static int counter_;
  std::shared_ptr<kube::Client> client_;
  std::string name_;
};
int TellTest::counter_ = 0;

TEST_F(TellTest, LabelAnnotationAndEvent) {
  EXPECT_EQ(Tell({}).status, 0);
  EXPECT_EQ(Label(), "passed");
  auto told = Told();
  EXPECT_EQ(told.state, api::QualificationState::kPassed);
  EXPECT_EQ(told.message, "3 of 3 GPUs passed");
  EXPECT_EQ(told.gpus.size(), 3u);
  EXPECT_THAT(EventReasons(), ElementsAre("QualificationPassed"));

  node_.Gpu({"bad-memory", "0", "1"});
  EXPECT_EQ(Tell({}).status, 1);
  EXPECT_EQ(Label(), "failed");
  told = Told();
  EXPECT_FALSE(told.gpus.at(0).passed);
  EXPECT_THAT(told.gpus.at(0).failures, ElementsAre(HasSubstr("memory: ")));
  EXPECT_TRUE(told.gpus.at(1).passed);
  EXPECT_THAT(EventReasons(),
              ::testing::UnorderedElementsAre("QualificationPassed", "QualificationFailed"));
}

// What the validator's init container does on nodes that the operator holds (desired,
// qualification_gate.h).
TEST_F(TellTest, ANodeThatIsHeldIsTestedOnce) {
  EXPECT_EQ(Tell({"--if-needed"}).status, 0);
  EXPECT_EQ(Label(), "") << "nobody holds the node";
  Hold();
  Boot("first");
  EXPECT_EQ(Tell({"--if-needed"}).status, 0);
  EXPECT_EQ(Label(), "passed");
  const auto told = Told();
  EXPECT_EQ(told.boot_id, "first");

  // The same GPUs with the same driver have passed, before a restart of the node too.
  node_.Gpu({"bad-memory", "0", "1"});
  Boot("second");
  SetLabel("pending");
  EXPECT_EQ(Tell({"--if-needed"}).status, 0);
  EXPECT_EQ(Label(), "passed");
  EXPECT_EQ(Told(), told);
}

TEST_F(TellTest, AFailureStandsUntilTheNodeStartsAnew) {
  Hold();
  Boot("first");
  node_.Gpu({"bad-memory", "0", "1"});
  EXPECT_EQ(Tell({"--if-needed"}).status, 0) << "the Node tells it; nobody starts it again for it";
  EXPECT_EQ(Label(), "failed");
  node_.Gpu({"bad-memory", "0", "0"});
  SetLabel("pending");
  EXPECT_EQ(Tell({"--if-needed"}).status, 0);
  EXPECT_EQ(Label(), "failed");
  Boot("second");
  EXPECT_EQ(Tell({"--if-needed"}).status, 0);
  EXPECT_EQ(Label(), "passed");
}

TEST_F(TellTest, WhatWasNotTestedIsToldAsSuch) {
  node_.Gpu({"process", "0", "4711"});
  Hold();
  EXPECT_EQ(Tell({"--if-needed"}).status, 1) << "it is tried again";
  EXPECT_EQ(Label(), "failed") << "a running pod is not disturbed";
  EXPECT_EQ(Tell({}).status, 1);
  EXPECT_EQ(Label(), "failed");
  EXPECT_THAT(Told().message, AllOf(HasSubstr("not tested"), HasSubstr("process 4711")));
  EXPECT_THAT(Told().gpus, ::testing::IsEmpty());
  EXPECT_THAT(EventReasons(),
              AllOf(::testing::Not(::testing::IsEmpty()), ::testing::Each("QualificationNotDone")));
}

// What cannot be asked now says nothing of the GPUs: the kubelet starts the init container again.
TEST_F(TellTest, ADriverThatDoesNotAnswerIsAskedAgain) {
  Hold();
  Boot("first");
  const auto state = node_.driver_root() / "run/nvidia/simulation/state";
  const auto away = node_.folder().path() / "state-on-its-way";
  std::filesystem::rename(state, away);
  EXPECT_EQ(Tell({"--if-needed"}).status, 1);
  EXPECT_EQ(Label(), "failed");
  EXPECT_THAT(Told().message, HasSubstr("not tested"));
  std::filesystem::rename(away, state);
  EXPECT_EQ(Tell({"--if-needed"}).status, 0);
  EXPECT_EQ(Label(), "passed");
}

}  // namespace
}  // namespace pitcrew::node::qualification
