#include "node/toolkit/options.h"

#include <gtest/gtest.h>

#include <map>

namespace pitcrew::node::toolkit {
namespace {

base::Result<std::optional<Options>> Parse(
    std::vector<const char*> words, const std::map<std::string, std::string>& variables = {}) {
  words.insert(words.begin(), "nvidia-toolkit");
  return ParseOptions(static_cast<int>(words.size()), words.data(),
                      [&](const std::string& name) -> std::optional<std::string> {
                        const auto found = variables.find(name);
                        if (found == variables.end()) return std::nullopt;
                        return found->second;
                      });
}

// container-toolkit.md 4.18: what the operator's DaemonSet sets for containerd with CDI.
TEST(ToolkitOptions, EnvironmentOfTheOperatorsDaemonSet) {
  const auto parsed =
      Parse({}, {{"ROOT", "/usr/local/nvidia"},
                 {"NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND", "management.nvidia.com/gpu"},
                 {"NVIDIA_VISIBLE_DEVICES", "void"},
                 {"TOOLKIT_PID_FILE", "/run/nvidia/toolkit/toolkit.pid"},
                 {"NRI_NAMESPACE", "gpu-operator"},
                 {"CDI_ENABLED", "true"},
                 {"NVIDIA_RUNTIME_SET_AS_DEFAULT", "false"},
                 {"NVIDIA_CONTAINER_RUNTIME_MODE", "cdi"},
                 {"CRIO_CONFIG_MODE", "config"},
                 {"RUNTIME", "containerd"},
                 {"CONTAINERD_RUNTIME_CLASS", "nvidia"},
                 {"RUNTIME_CONFIG", "/runtime/config-dir/config.toml"},
                 {"CONTAINERD_CONFIG", "/runtime/config-dir/config.toml"},
                 {"RUNTIME_DROP_IN_CONFIG", "/runtime/config-dir.d/99-nvidia.toml"},
                 {"RUNTIME_DROP_IN_CONFIG_HOST_PATH", "/etc/containerd/conf.d/99-nvidia.toml"},
                 {"RUNTIME_SOCKET", "/runtime/sock-dir/containerd.sock"},
                 {"NVIDIA_DRIVER_ROOT", "/run/nvidia/driver"},
                 {"DRIVER_ROOT_CTR_PATH", "/driver-root"},
                 {"NVIDIA_DEV_ROOT", "/"},
                 {"DEV_ROOT_CTR_PATH", "/host"}});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const Options& options = **parsed;
  EXPECT_EQ(options.toolkit_folder(), "/usr/local/nvidia/toolkit");
  EXPECT_TRUE(options.cdi_enabled);
  EXPECT_TRUE(options.create_control_nodes);
  EXPECT_EQ(options.driver_root, "/run/nvidia/driver");
  EXPECT_EQ(options.driver_root_container, "/driver-root");
  EXPECT_EQ(options.dev_root, "/");
  EXPECT_EQ(options.dev_root_container, "/host");
  EXPECT_EQ(options.runtime.mode, "cdi");
  EXPECT_EQ(options.engine.kind, EngineKind::kContainerd);
  EXPECT_EQ(options.engine.config, "/runtime/config-dir/config.toml");
  EXPECT_EQ(options.engine.drop_in, "/runtime/config-dir.d/99-nvidia.toml");
  EXPECT_EQ(options.engine.drop_in_host_path, "/etc/containerd/conf.d/99-nvidia.toml");
  EXPECT_EQ(options.engine.socket, "/runtime/sock-dir/containerd.sock");
  EXPECT_EQ(options.engine.restart, RestartMode::kSignal);
  EXPECT_TRUE(options.engine.enable_cdi);
  EXPECT_FALSE(options.engine.set_as_default);
}

// container-toolkit.md 4.3, tables of defaults.
TEST(ToolkitOptions, Defaults) {
  const auto parsed = Parse({});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const Options& options = **parsed;
  EXPECT_EQ(options.engine.kind, EngineKind::kDocker);
  EXPECT_EQ(options.engine.config, "/etc/docker/daemon.json");
  EXPECT_EQ(options.engine.socket, "/var/run/docker.sock");
  EXPECT_EQ(options.install_folder, "/usr/local/nvidia");
  EXPECT_EQ(options.pid_file, "/run/nvidia/toolkit/toolkit.pid");
  EXPECT_EQ(options.cdi_kind, "management.nvidia.com/gpu");
  EXPECT_EQ(options.cdi_folder, "/var/run/cdi");
  EXPECT_FALSE(options.cdi_enabled);
  EXPECT_FALSE(options.create_control_nodes);
  EXPECT_TRUE(options.runtime.skip_mode_detection);
  EXPECT_TRUE(options.engine.set_as_default);
  const auto crio = Parse({"--runtime=crio"});
  EXPECT_EQ((*crio)->engine.drop_in, "/etc/crio/crio.conf.d/99-nvidia.toml");
  EXPECT_EQ((*crio)->engine.restart, RestartMode::kSystemd);
}

// container-toolkit.md 4.3: flags win; an empty value of a switch is false; #21, #23.
TEST(ToolkitOptions, Precedence) {
  const auto parsed =
      Parse({"--root", "/flag", "--enable-cdi-in-runtime=false", "-r", "containerd"},
            {{"ROOT", "/env"}, {"CDI_ENABLED", "true"}, {"NO_DAEMON", ""}});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ((*parsed)->install_folder, "/flag");
  EXPECT_TRUE((*parsed)->cdi_enabled);
  EXPECT_FALSE((*parsed)->engine.enable_cdi);
  EXPECT_FALSE((*parsed)->no_daemon);
}

// container-toolkit.md #26, #27 and 4.3; every one is told before anything is touched.
TEST(ToolkitOptions, Refusals) {
  RecordProperty("holds", "container-toolkit.md #26, #27");
  for (const auto& words : std::vector<std::vector<const char*>>{
           {"--pid-file", "/run/other.pid"},
           {"--runtime", "podman"},
           {"--toolkit-install-dir", ""},
           {"--cdi-kind", "nvidia.com"},
           {"--create-device-nodes", "all"},
           {"--no-such-flag"},
           {"--restart-mode", "later"},
           {"--distribution", "kind"},
           {"--settings-by-default", "config,restart-mode"},
           {"--runtime=crio", "--restart-mode=signal"},
           {"--runtime=crio", "--config-mode=both"},
           {"--runtime=crio", "--hooks-dir=hooks.d"},
           {"--runtime=crio", "--hook-filename=sub/hook.json"},
           {"--runtime=crio", "--hook-filename=hook.conf"},
           {"--enable-nri-plugin"},
           {"-p", "--nri-namespace="},
           {"-p", "--nri-namespace=a", "--nri-plugin-index=100"},
           {"-p", "--nri-namespace=a", "--nri-plugin-index=-1"}}) {
    const auto parsed = Parse(words);
    ASSERT_FALSE(parsed) << words[0];
    EXPECT_EQ(parsed.error().code, base::Code::kInvalid) << words[0];
  }
}

// The operator sets every variable: it says which of them nobody chose.
TEST(ToolkitOptions, WhatSomebodyChoseIsKnown) {
  const std::map<std::string, std::string> all = {{"RUNTIME_CONFIG", "/runtime/config-dir/x"},
                                                  {"RUNTIME_DROP_IN_CONFIG", "/d"},
                                                  {"CONTAINERD_SOCKET", "/s"},
                                                  {"RUNTIME_RESTART_MODE", "none"}};
  const auto chosen = (*Parse({"-r", "containerd"}, all))->given;
  EXPECT_TRUE(chosen.config && chosen.drop_in && chosen.socket && chosen.restart);
  EXPECT_FALSE(chosen.distribution);
  auto told = all;
  told["RUNTIME_SETTINGS_BY_DEFAULT"] = "config,drop-in-config";
  told["RUNTIME_DISTRIBUTION"] = "rke2";
  const auto defaults = (*Parse({"-r", "containerd"}, told))->given;
  EXPECT_FALSE(defaults.config || defaults.drop_in);
  EXPECT_TRUE(defaults.socket);
  EXPECT_EQ(defaults.distribution, Distribution::kRke2);
  const auto nothing = (*Parse({"-r", "containerd"}))->given;
  EXPECT_FALSE(nothing.config || nothing.drop_in || nothing.socket || nothing.restart);
  EXPECT_EQ((*Parse({"--distribution=none"}))->given.distribution, Distribution::kNone);
  EXPECT_FALSE((*Parse({"--distribution=auto"}))->given.distribution);
}

TEST(ToolkitOptions, HookOfCrio) {
  const auto hook =
      (*Parse({"--runtime=crio", "--root=/opt/n"}, {{"CRIO_CONFIG_MODE", "hook"}}))->engine.hook;
  EXPECT_TRUE(hook.enabled);
  EXPECT_EQ(hook.file, "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json");
  EXPECT_EQ(hook.program, "/opt/n/toolkit/nvidia-container-runtime-hook");
  const auto other =
      (*Parse({"--runtime=crio", "--hooks-dir=/run/h", "--hook-filename=x.json"}))->engine.hook;
  EXPECT_FALSE(other.enabled);
  EXPECT_EQ(other.file, "/run/h/x.json");
  // The mode is CRI-O's: what an environment says of it is nothing to another engine.
  EXPECT_FALSE((*Parse({"--runtime=docker"}, {{"CRIO_CONFIG_MODE", "hook"}}))->engine.hook.enabled);
}

TEST(ToolkitOptions, NriPlugin) {
  RecordProperty("holds", "container-toolkit.md #27");
  EXPECT_FALSE((*Parse({}))->nri);
  EXPECT_TRUE((*Parse({}))->configures_engine());
  const auto plain = *Parse({}, {{"ENABLE_NRI_PLUGIN", "true"}, {"NRI_NAMESPACE", "gpu-operator"}});
  ASSERT_TRUE(plain->nri);
  EXPECT_FALSE(plain->configures_engine());
  EXPECT_EQ(plain->nri->index, 10U);
  EXPECT_EQ(plain->nri->socket, "/var/run/nri/nri.sock");
  EXPECT_EQ(plain->nri->operator_namespace, "gpu-operator");
  EXPECT_TRUE(plain->nri->more_namespaces.empty());
  const auto full = *Parse({"-p", "--nri-namespace=a", "--nri-plugin-index=99"},
                           {{"NRI_SOCKET", "/runtime/nri-sock-dir/nri.sock"},
                            {"NRI_PLUGIN_NAME", "mine"},
                            {"NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES", "b,,c"}});
  EXPECT_EQ(full->nri->index, 99U);
  EXPECT_EQ(full->nri->plugin_name, "mine");
  EXPECT_EQ(full->nri->socket, "/runtime/nri-sock-dir/nri.sock");
  EXPECT_EQ(full->nri->more_namespaces, (std::vector<std::string>{"b", "c"}));
}

// container-toolkit.md 4.3 and 13 row 21: an empty list means none.
TEST(ToolkitOptions, ControlNodes) {
  EXPECT_FALSE((*Parse({"--cdi-enabled", "--create-device-nodes="}))->create_control_nodes);
  EXPECT_FALSE((*Parse({"--cdi-enabled", "--create-device-nodes=none"}))->create_control_nodes);
  EXPECT_FALSE((*Parse({"--cdi-enabled"}, {{"CREATE_DEVICE_NODES", ""}}))->create_control_nodes);
  EXPECT_TRUE((*Parse({"--cdi-enabled"}))->create_control_nodes);
}

}  // namespace
}  // namespace pitcrew::node::toolkit
