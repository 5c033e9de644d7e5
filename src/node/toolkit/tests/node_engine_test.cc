// Nodes of every kind.
#include "node/toolkit/node_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "codec/toml.h"
#include "support_node_engine.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(NodeEngineTest, AnOrdinaryNodeIsConfiguredAsBefore) {
  Listen("/run/containerd/containerd.sock");
  Containerd("", "containerd.service", {"/sbin/init"});
  const EngineOptions before = options_.engine;
  ASSERT_TRUE(Find());
  EXPECT_EQ(options_.engine.config, before.config);
  EXPECT_EQ(options_.engine.drop_in, before.drop_in);
  EXPECT_EQ(options_.engine.restart, before.restart);
  EXPECT_EQ(options_.engine.distribution.name, Distribution::kNone);
}

// A node that is a container on another one has that one's service above its own.
TEST_F(NodeEngineTest, TheInnermostUnitCounts) {
  Listen("/run/containerd/containerd.sock");
  Process(::getpid(), {"containerd"}, kParent,
          "/system.slice/k0sworker.service/x/containerd.service");
  const auto inner = FindNodeEngine(View(), {});
  ASSERT_TRUE(inner) << inner.error().message;
  EXPECT_EQ(inner->unit, "containerd.service");
  // An ordinary configuration is read by no distribution's containerd.
  Process(::getpid(), {"containerd"}, kParent, "/system.slice/k0sworker.service/x");
  EXPECT_EQ(FindNodeEngine(View(), {})->distribution, Distribution::kNone);
}

// Same engine, same socket, same layout.
TEST_F(NodeEngineTest, K3sAndRke2AreToldApart) {
  RecordProperty("holds", "runtimes-and-distributions.md #31");
  Listen(kK3sSocket);
  struct Case {
    const char* config;
    const char* unit;
    const char* program;
    Distribution expected;
  };
  for (const auto& [config, unit, program, expected] :
       {Case{"/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "k3s.service",
             "/usr/local/bin/k3s", Distribution::kK3s},
        Case{"/var/lib/rancher/rke2/agent/etc/containerd/config.toml", "rke2-server.service",
             "/usr/local/bin/rke2", Distribution::kRke2},
        // Their folders are of somebody's choice.
        Case{"/data/agent/etc/containerd/config.toml", "rke2-agent.service", "x",
             Distribution::kRke2},
        Case{"/data/agent/etc/containerd/config.toml", "", "/opt/bin/rke2", Distribution::kRke2},
        Case{"/data/agent/etc/containerd/config.toml", "", "/opt/bin/k3s", Distribution::kK3s},
        Case{"/var/lib/rancher/rke2/agent/etc/containerd/config.toml", "", "x",
             Distribution::kRke2}}) {
    Containerd(config, unit, {program});
    const auto found = FindNodeEngine(View(), {});
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->distribution, expected) << config << " " << unit << " " << program;
    EXPECT_EQ(found->unit, unit);
  }
  Containerd("/data/agent/etc/containerd/config.toml", "", {"init"});
  const auto unknown = FindNodeEngine(View(), {});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().reason, "K3sOrRke2");
  EXPECT_THAT(unknown.error().message, HasSubstr("RUNTIME_DISTRIBUTION"));
}

TEST_F(NodeEngineTest, ADataFolderOfSomebodysChoiceIsFound) {
  RecordProperty("holds", "runtimes-and-distributions.md #32");
  Put("/data/k3s/agent/etc/containerd/config.toml", kRendered);
  Listen(kK3sSocket);
  Containerd("/data/k3s/agent/etc/containerd/config.toml", "k3s.service", {"/usr/local/bin/k3s"});
  ASSERT_TRUE(Find());
  EXPECT_EQ(options_.engine.config, At("/data/k3s/agent/etc/containerd/config.toml"));
  EXPECT_EQ(options_.engine.drop_in, At("/data/k3s/agent/etc/containerd/config-v3.toml.tmpl"));
  EXPECT_EQ(options_.engine.socket, At(kK3sSocket));
}

// k3s looks into /usr/local/nvidia/toolkit by itself when it starts.
TEST_F(NodeEngineTest, WhereK3sFindsTheToolkitNoFileIsEdited) {
  RecordProperty("holds", "runtimes-and-distributions.md #28");
  options_.install_folder = "/usr/local/nvidia";
  K3s(kRendered, "k3s.service");
  ASSERT_TRUE(Find());
  EXPECT_EQ(options_.engine.distribution.placement, Placement::kFoundByItself);
  EXPECT_EQ(options_.engine.distribution.unit, "k3s.service");
  EXPECT_EQ(options_.engine.restart, RestartMode::kSystemd);
  const auto runtimes = RuntimesFor(options_.engine, options_.toolkit_folder());
  ASSERT_EQ(runtimes.size(), 1u) << "older releases look for no other";
  EXPECT_EQ(runtimes[0].name, "nvidia");
}

TEST_F(NodeEngineTest, AnotherInstallFolderGetsATemplate) {
  RecordProperty("holds", "runtimes-and-distributions.md #29");
  K3s(kRendered);
  ASSERT_TRUE(Find());
  ASSERT_TRUE(Configure());
  const auto text = Text(std::string(kK3s) + "/config-v3.toml.tmpl");
  EXPECT_THAT(text, HasSubstr("{{ template \"base\" . }}\n"));
  EXPECT_EQ(Text(std::string(kK3s) + "/config.toml"), kRendered);
  // As k3s renders it: what is built in, then ours.
  const auto ours = text.substr(text.find("}}\n") + 3);
  const auto rendered = codec::ParseToml(kRendered + ours);
  ASSERT_TRUE(rendered) << rendered.error().message << "\n" << ours;
  const auto* runtimes =
      codec::Find(*rendered, {"plugins", "io.containerd.cri.v1.runtime", "containerd", "runtimes"});
  for (const auto& [name, ending] : {std::pair("nvidia", ""), std::pair("nvidia-cdi", ".cdi"),
                                     std::pair("nvidia-legacy", ".legacy")}) {
    EXPECT_EQ(codec::FindString(*runtimes, {name, "options", "BinaryName"}),
              std::string("/opt/n/toolkit/nvidia-container-runtime") + ending);
    EXPECT_EQ(codec::FindString(*runtimes, {name, "runtime_type"}), "io.containerd.runc.v2");
    EXPECT_EQ(*codec::Find(*runtimes, {name, "options", "SystemdCgroup"}), true);
  }
  // k3s has started with it; nothing more changes.
  Put(std::string(kK3s) + "/config.toml", kRendered + ours);
  ASSERT_TRUE(Configure());
  EXPECT_EQ(Text(std::string(kK3s) + "/config-v3.toml.tmpl"), text);
  ASSERT_TRUE(Restore());
  EXPECT_EQ(Text(std::string(kK3s) + "/config-v3.toml.tmpl"), "(none)");
}

TEST_F(NodeEngineTest, WhereTheRootFileImportsAFolderItGetsADropIn) {
  RecordProperty("holds", "runtimes-and-distributions.md #29");
  K3s("imports = [\"" + std::string(kK3s) + "/config-v3.toml.d/*.toml\"]\n" + kRendered);
  options_.engine.set_as_default = true;
  ASSERT_TRUE(Find());
  EXPECT_EQ(options_.engine.distribution.placement, Placement::kDropIn);
  ASSERT_TRUE(Configure());
  const auto drop_in =
      codec::ParseToml(Text(std::string(kK3s) + "/config-v3.toml.d/99-nvidia.toml"));
  ASSERT_TRUE(drop_in);
  EXPECT_EQ(drop_in->at("version"), 3);
  const auto& containerd =
      drop_in->at("plugins").at("io.containerd.cri.v1.runtime").at("containerd");
  EXPECT_EQ(containerd.at("default_runtime_name"), "nvidia");
  EXPECT_EQ(containerd.at("runtimes").size(), 3u) << "only ours: containerd 2 merges by key";
  ASSERT_TRUE(Restore());
  EXPECT_FALSE(fs::exists(options_.engine.drop_in));
}

// containerd 1.7 takes the last file's table as a whole, passwords and all.
TEST_F(NodeEngineTest, ADropInOfVersion2HasTheWholeTableForItsOwnerOnly) {
  K3s("version = 2\nimports = [\"" + std::string(kK3s) +
      "/config.toml.d/*.toml\"]\n[plugins.\"io.containerd.grpc.v1.cri\"]\n"
      "  sandbox_image = \"r.example.com/pause:1\"\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"r.example.com\".auth]\n"
      "  password = \"secret\"\n");
  ASSERT_TRUE(Find());
  ASSERT_TRUE(Configure());
  const auto drop_in = codec::ParseToml(Text(std::string(kK3s) + "/config.toml.d/99-nvidia.toml"));
  ASSERT_TRUE(drop_in);
  const auto& cri = drop_in->at("plugins").at("io.containerd.grpc.v1.cri");
  EXPECT_EQ(cri.at("sandbox_image"), "r.example.com/pause:1");
  EXPECT_EQ(cri.at("containerd").at("runtimes").size(), 3u);
  EXPECT_EQ(fs::status(options_.engine.drop_in).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(NodeEngineTest, OfTwoTemplatesTheNewerIsExtended) {
  RecordProperty("holds", "runtimes-and-distributions.md #30");
  const std::string newer = "# mine\n{{ template \"base\" . }}";
  Put(std::string(kK3s) + "/config.toml.tmpl", "# old\n");
  Put(std::string(kK3s) + "/config-v3.toml.tmpl", newer);
  K3s(kRendered);
  ASSERT_TRUE(Find());
  ASSERT_TRUE(Configure());
  EXPECT_THAT(Text(std::string(kK3s) + "/config-v3.toml.tmpl"),
              AllOf(HasSubstr(newer + "\n"), HasSubstr("nvidia-cdi")));
  EXPECT_EQ(Text(std::string(kK3s) + "/config.toml.tmpl"), "# old\n");
  ASSERT_TRUE(Restore());
  EXPECT_EQ(Text(std::string(kK3s) + "/config-v3.toml.tmpl"), newer + "\n");
}

// containerd 1.7, or a template of that time.
TEST_F(NodeEngineTest, ARootOfVersion2HasItsOwnTemplate) {
  K3s("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  enable_cdi = true\n");
  options_.engine.enable_cdi = true;
  ASSERT_TRUE(Find());
  EXPECT_EQ(options_.engine.drop_in, At(std::string(kK3s) + "/config.toml.tmpl"));
  ASSERT_TRUE(Configure());
  EXPECT_THAT(Text(std::string(kK3s) + "/config.toml.tmpl"),
              HasSubstr("[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.\"nvidia\"]"));
  // The newer name is not looked at by such a k3s, or it has not started since.
  Put(std::string(kK3s) + "/config-v3.toml.tmpl", "x");
  options_.engine = {};
  options_.engine.kind = EngineKind::kContainerd;
  const auto again = Find();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().reason, "TemplateNotUsed");
}

// Two tables of one name keep containerd from starting, and a template cannot change what stands
// above it: nothing is written then.
TEST_F(NodeEngineTest, WhatATemplateCannotDoIsSaid) {
  K3s(std::string(kRendered) +
      "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\n  runtime_type = "
      "\"x\"\n");
  ASSERT_TRUE(Find());
  const auto there = Configure();
  ASSERT_FALSE(there);
  EXPECT_EQ(there.error().reason, "RuntimeIsThere");
  Put(std::string(kK3s) + "/config.toml", kRendered);
  options_.engine.set_as_default = true;
  EXPECT_EQ(Configure().error().reason, "DefaultInTemplate");
  options_.engine.set_as_default = false;
  options_.engine.annotation_prefixes = {"{{ x }}"};
  EXPECT_EQ(Configure().error().reason, "NotForATemplate");
  options_.engine.annotation_prefixes = {};
  options_.engine.enable_cdi = true;
  Put(std::string(kK3s) + "/config.toml",
      std::string(kRendered) + "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n");
  EXPECT_EQ(Configure().error().reason, "CdiInTemplate");
  EXPECT_FALSE(fs::exists(options_.engine.drop_in));
  options_.engine.enable_cdi = false;
  Put(std::string(kK3s) + "/config-v3.toml.tmpl", "# <<< runtimes of the container toolkit\n");
  EXPECT_EQ(Configure().error().reason, "TemplateBroken");
}

// MicroK8s: version 2, placeholders, and a runtime of its own.
TEST_F(NodeEngineTest, MicroK8sTemplateKeepsItsPlaceholders) {
  RecordProperty("holds", "runtimes-and-distributions.md #33");
  const std::string args = "/var/snap/microk8s/3203/args";
  const std::string site =
      "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"
      "  snapshotter = \"${SNAPSHOTTER}\"\n  default_runtime_name = \"${RUNTIME}\"\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n"
      "  runtime_type = \"${RUNTIME_TYPE}\"\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia-container-runtime]\n"
      "  runtime_type = \"${RUNTIME_TYPE}\"\n";
  std::string rendered = site;
  for (const auto& [from, to] : {std::pair<std::string, std::string>("${SNAPSHOTTER}", "overlayfs"),
                                 {"${RUNTIME}", "runc"},
                                 {"${RUNTIME_TYPE}", "io.containerd.runc.v2"}}) {
    for (auto at = rendered.find(from); at != std::string::npos; at = rendered.find(from)) {
      rendered.replace(at, from.size(), to);
    }
  }
  Put(args + "/containerd-template.toml", site);
  Put(args + "/containerd.toml", rendered);
  fs::create_symlink("3203", At("/var/snap/microk8s/current"));
  Listen("/var/snap/microk8s/common/run/containerd.sock");
  Containerd("/var/snap/microk8s/current/args/containerd.toml",
             "snap.microk8s.daemon-containerd.service", {"/sbin/init"});
  ASSERT_TRUE(Find());
  EXPECT_EQ(options_.engine.distribution.name, Distribution::kMicroK8s);
  EXPECT_EQ(options_.engine.restart, RestartMode::kSystemd);
  EXPECT_EQ(options_.engine.distribution.unit, "snap.microk8s.daemon-containerd.service");
  ASSERT_TRUE(Configure());
  const auto text = Text(args + "/containerd-template.toml");
  EXPECT_TRUE(text.starts_with(site));
  const auto config = codec::ParseToml(text);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(codec::FindString(*config, {"plugins", "io.containerd.grpc.v1.cri", "containerd",
                                        "runtimes", "nvidia", "runtime_type"}),
            "io.containerd.runc.v2");
  EXPECT_EQ(Text(args + "/containerd.toml"), rendered);
  ASSERT_TRUE(Restore());
  EXPECT_EQ(Text(args + "/containerd-template.toml"), site);
}

// k0s stops at a version or a table that it does not want, and applies the folder by itself.
TEST_F(NodeEngineTest, K0sGetsADropInWithoutAVersion) {
  RecordProperty("holds", "runtimes-and-distributions.md #34, #35");
  const std::string managed = "# k0s_managed=true\n" + std::string(kRendered);
  Put("/etc/k0s/containerd.toml", managed);
  Listen("/run/k0s/containerd.sock");
  Containerd("/etc/k0s/containerd.toml", "k0sworker.service", {"/usr/local/bin/k0s"});
  ASSERT_TRUE(Find());
  EXPECT_EQ(options_.engine.restart, RestartMode::kByDistribution);
  ASSERT_TRUE(Configure());
  const auto drop_in = codec::ParseToml(Text("/etc/k0s/containerd.d/99-nvidia.toml"));
  ASSERT_TRUE(drop_in);
  EXPECT_FALSE(drop_in->contains("version"));
  EXPECT_FALSE(drop_in->contains("imports"));
  ASSERT_EQ(drop_in->at("plugins").size(), 1u);
  EXPECT_EQ(drop_in->at("plugins")
                .at("io.containerd.cri.v1.runtime")
                .at("containerd")
                .at("runtimes")
                .size(),
            3u);
  EXPECT_EQ(Text("/etc/k0s/containerd.toml"), managed);
  ASSERT_TRUE(Restore());
  EXPECT_FALSE(fs::exists(At("/etc/k0s/containerd.d/99-nvidia.toml")));
}

TEST_F(NodeEngineTest, ARootFileThatK0sDoesNotManageHasToImportTheFolder) {
  Put("/etc/k0s/containerd.toml", kRendered);
  Listen("/run/k0s/containerd.sock");
  Containerd("/etc/k0s/containerd.toml", "k0scontroller.service", {"/usr/local/bin/k0s"});
  const auto refused = Find();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "NotManagedByK0s");
  Put("/etc/k0s/containerd.toml",
      "imports = [\"/etc/k0s/containerd.d/*.toml\"]\n" + std::string(kRendered));
  EXPECT_TRUE(Find());
}

// Docker's containerd beside that of k3s: whose shim runs this pod is the kubelet's.
TEST_F(NodeEngineTest, OfTwoThatAnswerTheOneThatRunsThisPodCounts) {
  K3s(kRendered);
  Listen("/run/containerd/containerd.sock");
  const auto several = FindNodeEngine(View(), {});
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().reason, "SeveralEngines");
  EXPECT_THAT(several.error().message,
              AllOf(HasSubstr("/run/containerd/containerd.sock"), HasSubstr(kK3sSocket),
                    HasSubstr("CONTAINERD_SOCKET")));
  Pod(kK3sSocket);
  const auto found = FindNodeEngine(View(), {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->socket, At(kK3sSocket));
  EXPECT_EQ(found->distribution, Distribution::kK3s);
  EXPECT_EQ(found->why, "it runs this pod");
}

// In a restart, or out of sight. Of an ordinary containerd nothing has to be known.
TEST_F(NodeEngineTest, AnOwnEngineThatDoesNotAnswerIsOrdinaryOrAnError) {
  Put(std::string(kK3s) + "/config.toml", kRendered);
  Pod("/run/containerd/containerd.sock");
  const auto ordinary = FindNodeEngine(View(), {});
  ASSERT_TRUE(ordinary) << ordinary.error().message;
  EXPECT_EQ(ordinary->distribution, Distribution::kNone);
  Pod(kK3sSocket);
  const auto down = FindNodeEngine(View(), {});
  ASSERT_FALSE(down);
  EXPECT_THAT(down.error().message, HasSubstr(kK3sSocket));
}

TEST_F(NodeEngineTest, WhatSomebodyChoseStays) {
  K3s(kRendered);
  Listen("/other.sock");
  for (const bool drop_in : {false, true}) {
    Options options = options_;
    (drop_in ? options.given.drop_in : options.given.config) = true;
    ASSERT_TRUE(ConfigureForDistribution(View(), options));
    EXPECT_EQ(options.engine.config, "/etc/containerd/config.toml");
  }
  Options none = options_;
  none.given.distribution = Distribution::kNone;
  ASSERT_TRUE(ConfigureForDistribution(View(), none));
  EXPECT_EQ(none.engine.config, "/etc/containerd/config.toml");
  // A socket alone, as RKE2 documents it: the engine behind it is configured in its own way.
  Options socket = options_;
  socket.given.socket = true;
  socket.given.restart = true;
  socket.engine.socket = At("/other.sock");
  socket.engine.restart = RestartMode::kSignal;
  ASSERT_TRUE(ConfigureForDistribution(View(), socket));
  EXPECT_EQ(socket.engine.socket, At("/other.sock"));
  EXPECT_EQ(socket.engine.restart, RestartMode::kSignal);
  EXPECT_EQ(socket.engine.config, At(std::string(kK3s) + "/config.toml"));
}

TEST_F(NodeEngineTest, ADeclarationThatTheNodeContradictsIsRefused) {
  RecordProperty("holds", "runtimes-and-distributions.md #40");
  K3s(kRendered, "k3s.service");
  options_.given.distribution = Distribution::kRke2;
  const auto refused = Find();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "OtherDistribution");
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("RKE2"), HasSubstr("k3s")));
  options_.given.distribution = Distribution::kK3s;
  EXPECT_TRUE(Find());
}

// A folder without a process is no distribution, and no reason to take the node for another.
TEST_F(NodeEngineTest, AnEngineThatIsDownIsNotGuessed) {
  const auto nothing = FindNodeEngine(View(), {});
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->distribution, Distribution::kNone);
  Put(std::string(kK3s) + "/config.toml", kRendered);
  const auto down = FindNodeEngine(View(), {});
  ASSERT_FALSE(down);
  EXPECT_EQ(down.error().reason, "EngineDown");
  EXPECT_THAT(down.error().message, HasSubstr("rancher/k3s"));
}

// A distribution that restarts at this moment does not become an ordinary node by that.
TEST_F(NodeEngineTest, ASocketThatIsSetAndDoesNotAnswerIsNotGuessed) {
  options_.given.socket = true;
  options_.engine.socket = At("/mounted/containerd.sock");
  ASSERT_TRUE(Find());
  EXPECT_EQ(options_.engine.config, "/etc/containerd/config.toml");
  Put(std::string(kK3s) + "/config.toml", kRendered);
  const auto down = Find();
  ASSERT_FALSE(down);
  EXPECT_EQ(down.error().reason, "EngineDown");
  EXPECT_THAT(down.error().message,
              AllOf(HasSubstr("/mounted/containerd.sock"), HasSubstr("rancher/k3s"),
                    HasSubstr("RUNTIME_DISTRIBUTION=none")));
  options_.given.distribution = Distribution::kNone;
  EXPECT_TRUE(Find());
}

TEST_F(NodeEngineTest, WithoutAUnitTheRestartIsThePersons) {
  K3s(kRendered, "");
  const auto refused = Find();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "NoUnit");
  options_.given.restart = true;
  options_.engine.restart = RestartMode::kNone;
  EXPECT_TRUE(Find());
}

}  // namespace
}  // namespace pitcrew::node::toolkit
