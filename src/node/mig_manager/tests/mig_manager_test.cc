// What the MIG manager decides, without a cluster and without GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/labels.h"
#include "api/mig_progress.h"
#include "base/file.h"
#include "desired/testing/outside_operand.h"
#include "node/mig_manager/config_source.h"
#include "node/mig_manager/decision.h"
#include "node/mig_manager/gpu_clients.h"
#include "node/mig_manager/gpu_holders.h"
#include "node/mig_manager/host_services.h"
#include "node/mig_manager/options.h"
#include "tests/support/temporary_folder.h"
#include "workload/pause.h"

namespace pitcrew::node::mig_manager {
namespace {

using codec::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// --- Options -----------------------------------------------------------------------------------

base::Result<std::optional<Options>> Read(std::vector<std::string> words,
                                          const std::map<std::string, std::string>& variables) {
  words.insert(words.begin(), "nvidia-mig-manager");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  return ReadOptions(static_cast<int>(argv.size()), argv.data(),
                     [&](const std::string& name) -> std::optional<std::string> {
                       const auto found = variables.find(name);
                       if (found == variables.end()) return std::nullopt;
                       return found->second;
                     });
}

TEST(Options, AreUpstreamsByDefault) {  // mig-manager.md 9.1
  const auto options = Read({"-n", "gpu-1"}, {});
  ASSERT_TRUE(options) << options.error().message;
  const Options& read = **options;
  EXPECT_EQ(read.node_name, "gpu-1");
  EXPECT_EQ(read.host_root, "/host");
  EXPECT_EQ(read.state_file, "/etc/systemd/system/nvidia-mig-manager.service.d/override.conf");
  EXPECT_EQ(read.kubelet_service, "kubelet.service");
  EXPECT_EQ(read.clients_namespace, "default");
  EXPECT_EQ(read.driver_root, "/run/nvidia/driver");
  EXPECT_EQ(read.driver_root_container, "/run/nvidia/driver");
  EXPECT_EQ(read.dev_root_here(), "/run/nvidia/driver");
  EXPECT_EQ(read.cdi_hook_path, "/usr/local/nvidia/toolkit/nvidia-cdi-hook");
  EXPECT_FALSE(read.with_reboot || read.shutdown_host_clients || read.cdi_enabled);
  EXPECT_EQ(read.pods, PodPolicy::kIgnore) << "upstream does nothing about pods";
}

TEST(Options, ComeFromFlagsAndVariables) {
  const auto options = Read({"--driver-root-ctr-path=/d", "-b", "/dev-root", "-j", "/dev-here"},
                            {{"NODE_NAME", "gpu-1"},
                             {"CONFIG_FILE", "/c.yaml"},
                             {"DEFAULT_CONFIG_FILE", "/default.yaml"},
                             {"DRIVER_ROOT", "/other"},
                             {"WITH_REBOOT", "true"},
                             {"WITH_SHUTDOWN_HOST_GPU_CLIENTS", "true"},
                             {"CDI_ENABLED", "true"},
                             {"POD_NAMESPACE", "operators"},
                             {"MIG_GPU_PODS", "drain"},
                             {"MIG_GPU_PODS_DEADLINE", "90s"},
                             {"DRAIN_USE_FORCE", "true"}});
  ASSERT_TRUE(options) << options.error().message;
  const Options& read = **options;
  EXPECT_EQ(read.config_file, "/c.yaml");
  EXPECT_EQ(read.default_config_file, "/default.yaml");
  EXPECT_EQ(read.driver_root, "/other");
  EXPECT_EQ(read.driver_root_container, "/d");
  EXPECT_EQ(read.dev_root, "/dev-root");
  EXPECT_EQ(read.dev_root_here(), "/dev-here");
  EXPECT_TRUE(read.with_reboot && read.shutdown_host_clients && read.cdi_enabled);
  EXPECT_EQ(read.namespace_name, "operators");
  EXPECT_EQ(read.pods, PodPolicy::kDrain);
  EXPECT_EQ(read.pods_deadline, std::chrono::seconds(90));
  EXPECT_TRUE(read.drain_force);
}

TEST(Options, ThatCannotBeMeantAreNamed) {
  EXPECT_THAT(Read({}, {}).error().message, HasSubstr("invalid -n <node-name> flag"));
  const auto policy = Read({"-n", "a"}, {{"MIG_GPU_PODS", "evict"}});
  ASSERT_FALSE(policy);
  EXPECT_THAT(policy.error().message, HasSubstr("ignore, wait, drain"));
  EXPECT_FALSE(Read({"-n", "a"}, {{"MIG_GPU_PODS_DEADLINE", "30"}}));
  EXPECT_FALSE(Read({"-n", "a", "--gpu-pods-deadline=-1s"}, {}));
}

// --- Decision ----------------------------------------------------------------------------------

mig::Plan PlanOf(bool changes_mode) {
  mig::Plan plan;
  plan.changes.push_back({.position = 0, .uuid = "GPU-0", .changes_mode = changes_mode});
  return plan;
}

TEST(Decision, FollowsFromPlanAndState) {  // mig-manager.md 9.4, steps 3 and 5
  EXPECT_EQ(Decide({}, ""), Action::kNothing);
  EXPECT_EQ(Decide({}, kRebooting), Action::kNothing) << "the restart has helped";
  EXPECT_EQ(Decide(PlanOf(true), ""), Action::kChange);
  EXPECT_EQ(Decide(PlanOf(true), kPending), Action::kChange) << "a manager that died";
  EXPECT_EQ(Decide(PlanOf(true), kRebooting), Action::kRebootInVain);
  EXPECT_EQ(Decide(PlanOf(false), kRebooting), Action::kChange) << "instances are still to be made";
}

TEST(Decision, OnlyWhatMayPassIsTriedAgain) {
  EXPECT_TRUE(MayPass(base::Unavailable("ServerAway", "")));
  EXPECT_TRUE(MayPass({base::Code::kTimeout, "OperandsStillRunning", ""}));
  EXPECT_FALSE(MayPass({base::Code::kTimeout, "GpuPodsStillThere", ""})) << "a deadline is an end";
  EXPECT_FALSE(MayPass({base::Code::kConflict, "InUse", ""}));
  EXPECT_FALSE(MayPass(base::Invalid("DoesNotFit", "")));
}

// --- Clients -----------------------------------------------------------------------------------

Json NodeWith(const std::map<std::string, std::string>& labels) {
  return {{"metadata", {{"labels", labels}}}};
}

TEST(Pausing, MapsValuesAsUpstream) {
  RecordProperty("holds", "mig-manager.md #37");
  const auto paused = std::string(api::kPausedForMigChange);
  const auto pause = [&](std::string_view value) {
    return workload::PausedValue(value, api::kPausedForMigChange);
  };
  const auto resume = [&](std::string_view value) {
    return workload::ResumedValue(value, api::kPausedForMigChange);
  };
  EXPECT_EQ(pause("false"), "false");
  EXPECT_EQ(pause("true"), paused);
  EXPECT_EQ(pause(paused), paused);
  // Upstream makes the label; here an operand that the operator has not scheduled stays unlabelled
  // (section 15, weakness 6).
  EXPECT_EQ(pause(""), "");
  EXPECT_EQ(resume("false"), "false");
  EXPECT_EQ(resume(paused), "true");
  // The pause of another stays (weakness 7).
  EXPECT_EQ(resume(pause("paused-for-driver-upgrade")), "paused-for-driver-upgrade");
}

constexpr const char* kPluginApp = "nvidia-device-plugin-daemonset";

TEST(Pausing, TakesTheClientsThatTheNodeHas) {
  const auto node = NodeWith({{"nvidia.com/gpu.deploy.device-plugin", "true"},
                              {"nvidia.com/gpu.deploy.gpu-feature-discovery", "true"},
                              {"nvidia.com/gpu.deploy.dcgm", "false"},
                              {"nvidia.com/gpu.deploy.nvsm", "true"},
                              {"nvidia.com/gpu.deploy.container-toolkit", "true"}});
  const auto all = PlanPause(node, {}, false);
  EXPECT_THAT(all.labels, ElementsAre(api::kDeployDevicePlugin, api::kDeployGpuFeatureDiscovery,
                                      api::kDeployNvsm));
  EXPECT_THAT(all.apps, UnorderedElementsAre(kPluginApp, "gpu-feature-discovery"));
  EXPECT_FALSE(all.third_parties);
  // Who follows by himself stays, unless a mode changes.
  EXPECT_THAT(PlanPause(node, {kPluginApp}, false).labels,
              ElementsAre(api::kDeployGpuFeatureDiscovery, api::kDeployNvsm));
  EXPECT_THAT(PlanPause(node, {kPluginApp}, true).labels, ::testing::SizeIs(3));
}

TEST(Pausing, AnOperandFromOutsideLeavesToo) {
  const auto pause = PlanPause(NodeWith({{std::string(desired::testing::kOutsideLabel), "true"}}),
                               {}, false, desired::testing::TableWithOutsideOperand());
  EXPECT_THAT(pause.labels, ElementsAre(desired::testing::kOutsideLabel));
  EXPECT_THAT(pause.apps, ElementsAre("nvidia-frobnicator"));
}

TEST(Pausing, WaitsForThirdPartiesOnlyWhereTheyAreAskedFor) {  // section 9.3
  EXPECT_TRUE(
      PlanPause(NodeWith({{"nvidia.com/gpu.deploy.client", "true"}}), {}, false).third_parties);
  EXPECT_FALSE(PlanPause(NodeWith({}), {}, false).third_parties);
  const Json client = {
      {"metadata",
       {{"ownerReferences",
         Json::array(
             {{{"kind", "DaemonSet"}, {"name", "d"}, {"uid", "u"}, {"controller", true}}})}}},
      {"spec", {{"nodeSelector", {{"nvidia.com/gpu.deploy.client", "true"}}}}}};
  EXPECT_TRUE(IsThirdPartyClient(client));
  Json other = client;
  other["spec"]["nodeSelector"] = {{"nvidia.com/gpu.deploy.dcgm", "true"}};
  EXPECT_FALSE(IsThirdPartyClient(other));
  Json alone = client;
  alone["metadata"].erase("ownerReferences");
  EXPECT_FALSE(IsThirdPartyClient(alone));
}

TEST(DefaultConfiguration, OneThatCannotBeLookedForIsNotNone) {
  const test_support::TemporaryFolder folder;
  const auto generation = base::NotFound("NoProfiles", "no MIG profiles discovered");
  const auto load = [&](const std::filesystem::path& file) {
    return LoadDefaultConfiguration(file, generation);
  };
  EXPECT_EQ(load("").error().reason, "NoConfiguration");
  EXPECT_EQ(load(folder.path() / "none.yaml").error().reason, "NoConfiguration");
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  const auto unknown = load(folder.path() / "loop/config.yaml");
  EXPECT_EQ(unknown.error().reason, "DefaultConfigurationUnknown");
  EXPECT_EQ(unknown.error().code, base::Code::kUnavailable) << "which is tried again";
  EXPECT_TRUE(load(folder.Write("config.yaml",
                                "version: v1\nmig-configs: {all-disabled: "
                                "[{devices: all, mig-enabled: false}]}\n")));
}

TEST(HostServices, AreReadFromTheClientsFile) {  // section 9.5
  const test_support::TemporaryFolder folder;
  const auto good = folder.Write(
      "good.yaml", "version: v1\nsystemd-services: [nvsm.service, dcgm.service]\nextra: 1\n");
  EXPECT_THAT(*ReadHostServices(good), ElementsAre("nvsm.service", "dcgm.service"));
  EXPECT_THAT(*ReadHostServices(""), IsEmpty());
  const auto other = folder.Write("other.yaml", "version: v2\n");
  const auto refused = ReadHostServices(other);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("other.yaml"));
  EXPECT_FALSE(ReadHostServices(folder.path() / "missing.yaml"));
}

// Only a service that is there is told, and only a systemd that is there reads its unit anew.
TEST(HostServices, TheHostsMigServiceIsToldWhereItIs) {  // section 9.4, step 4
  const test_support::TemporaryFolder host;
  Options options;
  options.host_root = host.path();
  options.state_file = "/etc/override.conf";
  ASSERT_TRUE(TellHostService(options, "all-1g.10gb"));
  const auto file = host.path() / "etc/override.conf";
  EXPECT_FALSE(std::filesystem::exists(file)) << "the host has no such service";
  host.Write("etc/override.conf", "[Service]\n");
  const auto told = TellHostService(options, "all-1g.10gb");
  EXPECT_TRUE(told) << "a host without systemd reads it by itself: " << told.error().message;
  EXPECT_EQ(*base::ReadFile(file),
            "[Service]\nEnvironment=\"MIG_PARTED_SELECTED_CONFIG=all-1g.10gb\"\n");
  // Where there is a bus, it has to answer: else systemd would start the configuration of before.
  host.Write("run/dbus/system_bus_socket", "");
  const auto silent = TellHostService(options, "all-disabled");
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, base::Code::kUnavailable) << silent.error().message;
}

// --- Holders -----------------------------------------------------------------------------------

Json Pod(const std::string& name, const std::string& resource,
         const std::string& phase = "Running") {
  return {{"metadata", {{"name", name}, {"namespace", "ml"}, {"uid", name}}},
          {"spec",
           {{"containers",
             Json::array({{{"name", "c"}, {"resources", {{"limits", {{resource, "1"}}}}}}})}}},
          {"status", {{"phase", phase}}}};
}

class Holders : public ::testing::Test {
 protected:
  Holders() {
    facts_.devices.emplace();
    facts_.gpu_of_device = {{"GPU-0", "GPU-0"}, {"GPU-1", "GPU-1"}, {"MIG-0a", "GPU-0"}};
    facts_.changing = {"GPU-0"};
    facts_.claims_gpu = [this](const Json& pod) {
      return claims_.contains(pod["metadata"]["name"].get<std::string>());
    };
  }
  void Gives(const std::string& pod, const std::string& resource, std::vector<std::string> ids) {
    facts_.devices->push_back({"ml", pod, {{resource, std::move(ids)}}});
  }
  std::vector<std::string> Names(const std::vector<Json>& pods) {
    std::vector<const Json*> pointers;
    for (const auto& pod : pods) pointers.push_back(&pod);
    std::vector<std::string> names;
    for (const auto* pod : FindHolders(pointers, facts_)) {
      names.push_back((*pod)["metadata"]["name"].get<std::string>());
    }
    return names;
  }
  HolderFacts facts_;
  std::set<std::string> claims_;
};

TEST_F(Holders, AreThoseOfTheGpusThatChange) {
  Gives("whole", "nvidia.com/gpu", {"GPU-0"});
  Gives("replica", "nvidia.com/gpu", {"GPU-0::3"});
  Gives("part", "nvidia.com/mig-1g.10gb", {"MIG-0a"});
  Gives("other", "nvidia.com/gpu", {"GPU-1"});
  Gives("other-replica", "nvidia.com/gpu", {"GPU-1::0"});
  EXPECT_THAT(Names({Pod("whole", "nvidia.com/gpu"), Pod("replica", "nvidia.com/gpu"),
                     Pod("part", "nvidia.com/mig-1g.10gb"), Pod("other", "nvidia.com/gpu"),
                     Pod("other-replica", "nvidia.com/gpu"), Pod("idle", "cpu")}),
              ElementsAre("whole", "replica", "part"));
}

TEST_F(Holders, EndedPodsHoldNothing) {
  Gives("done", "nvidia.com/gpu", {"GPU-0"});
  EXPECT_THAT(Names({Pod("done", "nvidia.com/gpu", "Succeeded")}), IsEmpty());
}

TEST_F(Holders, WhatIsNotKnownCounts) {
  Gives("unknown-device", "nvidia.com/gpu", {"GPU-9"});
  Gives("to-be-chosen", "example.com/nic", {"eth0"});
  claims_ = {"claims"};
  EXPECT_THAT(Names({Pod("unknown-device", "nvidia.com/gpu"), Pod("to-be-chosen", "nvidia.com/gpu"),
                     Pod("not-admitted", "nvidia.com/gpu"), Pod("claims", "cpu")}),
              ElementsAre("unknown-device", "to-be-chosen", "not-admitted", "claims"));
  facts_.devices.reset();
  EXPECT_THAT(Names({Pod("other", "nvidia.com/gpu"), Pod("idle", "cpu")}), ElementsAre("other"))
      << "a kubelet that does not tell";
}

TEST_F(Holders, APodThatTheKubeletHasTakenAndDoesNotListIsToBeWaitedFor) {
  const auto taken = [](const std::string& name, const std::string& resource,
                        const std::string& phase = "Running") {
    Json pod = Pod(name, resource, phase);
    pod["status"]["startTime"] = "2026-01-01T00:00:00Z";
    return pod;
  };
  const Json listed = taken("listed", "nvidia.com/gpu");
  const Json ended = taken("ended", "nvidia.com/gpu", "Failed");
  const Json without = taken("without", "cpu");
  const Json fresh = Pod("not-admitted", "nvidia.com/gpu", "Pending");
  const Json unlisted = taken("unlisted", "nvidia.com/mig-1g.10gb");
  Gives("listed", "nvidia.com/gpu", {"GPU-0"});
  EXPECT_EQ(FindUnlisted({&listed, &ended, &without, &fresh}, facts_), nullptr);
  EXPECT_EQ(FindUnlisted({&listed, &unlisted}, facts_), &unlisted);
  facts_.devices.reset();
  EXPECT_EQ(FindUnlisted({&unlisted}, facts_), nullptr) << "a kubelet that does not tell";
}

}  // namespace
}  // namespace pitcrew::node::mig_manager
