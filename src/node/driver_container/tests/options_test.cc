// The command line and the variables of a driver container.
#include "node/driver_container/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::node::driver_container {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Variables = std::map<std::string, std::string>;

base::Result<std::optional<Options>> Read(std::vector<std::string> words,
                                          Variables variables = {}) {
  words.insert(words.begin(), "nvidia-driver");
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  return ReadOptions(static_cast<int>(pointers.size()), pointers.data(), variables);
}

Options MustRead(std::vector<std::string> words, Variables variables = {}) {
  const auto read = Read(std::move(words), std::move(variables));
  EXPECT_TRUE(read.has_value());
  return read && *read ? **read : Options();
}

std::string MessageOf(std::vector<std::string> words, Variables variables = {}) {
  const auto read = Read(std::move(words), std::move(variables));
  return read ? "" : read.error().message;
}

TEST(Options, EachCommandHasItsAction) {
  EXPECT_EQ(MustRead({"init"}).action, Action::kInit);
  EXPECT_EQ(MustRead({"build"}).action, Action::kBuild);
  EXPECT_EQ(MustRead({"load"}).action, Action::kLoad);
  EXPECT_EQ(MustRead({"update"}).action, Action::kUpdate);
  EXPECT_EQ(MustRead({"preflight"}).action, Action::kPreflight);
  EXPECT_EQ(MustRead({"reload_nvidia_peermem"}).action, Action::kReloadPeermem);
  EXPECT_EQ(MustRead({"probe_nvidia_peermem"}).action, Action::kProbePeermem);
}

TEST(Options, NoCommandAndAnUnknownOneAreRefusedWithThoseThatThereAre) {
  RecordProperty("holds", "driver-lifecycle.md #119");
  EXPECT_THAT(MessageOf({}), HasSubstr("init, build, load, update"));
  EXPECT_THAT(MessageOf({"start"}), HasSubstr("init, build, load, update"));
  EXPECT_THAT(MessageOf({"init", "load"}), HasSubstr("write one command"));
}

TEST(Options, TakesUpstreamsVariables) {
  const auto options = MustRead({"init", "-a", "-m", "3"}, {{"DRIVER_VERSION", "580.95.05"},
                                                            {"TARGETARCH", "arm64"},
                                                            {"DRIVER_TYPE", "vgpu"},
                                                            {"KERNEL_MODULE_TYPE", "open"},
                                                            {"GPU_DIRECT_RDMA_ENABLED", "true"},
                                                            {"USE_HOST_MOFED", "true"},
                                                            {"DRIVER_CONFIG_DIGEST", "42"},
                                                            {"NVFM_CONFIG_FABRIC_MODE", "1"},
                                                            {"VGPU_LICENSE_SERVER_TYPE", "LEGACY"},
                                                            {"DNF_RELEASEVER", "9.4"}});
  EXPECT_EQ(options.version, "580.95.05");
  EXPECT_EQ(options.branch(), 580U);
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.architecture, "aarch64");
  EXPECT_TRUE(options.is_vgpu_guest);
  EXPECT_EQ(options.module_type, ModuleType::kOpen);
  EXPECT_TRUE(options.gpu_direct_rdma);
  EXPECT_TRUE(options.host_mofed);
  EXPECT_EQ(options.config_digest, "42");
  EXPECT_THAT(options.fabric_manager, ElementsAre(Pair("FABRIC_MODE", "1")));
  EXPECT_EQ(options.licence_server, "LEGACY");
  EXPECT_EQ(options.release_version, "9.4");
  EXPECT_FALSE(options.matches_vgpu_version);
}

TEST(Options, WithoutVariablesHasUpstreamsDefaults) {
  const auto options = MustRead({"init"});
  EXPECT_EQ(options.module_type, ModuleType::kAuto);
  EXPECT_EQ(options.licence_server, "NLS");
  EXPECT_FALSE(options.is_vgpu_guest);
  EXPECT_FALSE(options.gpu_direct_rdma);
  EXPECT_TRUE(options.refresh_packages);
  EXPECT_EQ(options.branch(), 0U);
}

TEST(Options, OnlyAPreflightReports) {
  EXPECT_EQ(MustRead({"preflight", "--report", "/dev/termination-log"}).report,
            "/dev/termination-log");
  EXPECT_EQ(MustRead({"preflight"}).report, "");
  EXPECT_THAT(MessageOf({"init", "--report", "/x"}), HasSubstr("preflight only"));
}

TEST(Options, BuiltinPackagesAreNotRefreshed) {
  EXPECT_FALSE(MustRead({"build", "--tag", "builtin"}).refresh_packages);
  EXPECT_TRUE(MustRead({"build", "--tag", "other"}).refresh_packages);
}

TEST(Options, ACertificateIsNamedLikeItsKey) {
  const auto named = MustRead({"init", "--sign", "/keys/module.pem"});
  EXPECT_EQ(named.signing_certificate, "/keys/module.x509");
  const auto told = MustRead({"init"}, {{"MODULE_SIGNING_KEY", "/keys/a.pem"},
                                        {"MODULE_SIGNING_CERTIFICATE", "/keys/b.der"}});
  EXPECT_EQ(told.signing_certificate, "/keys/b.der");
  EXPECT_THAT(MessageOf({"init", "--sign-certificate", "/keys/b.der"}), HasSubstr("and no key"));
}

TEST(Options, WhatNoDriverHasIsRefusedByName) {
  EXPECT_THAT(MessageOf({"init"}, {{"KERNEL_MODULE_TYPE", "foo"}}),
              HasSubstr("KERNEL_MODULE_TYPE is \"foo\""));
  EXPECT_THAT(MessageOf({"init"}, {{"TARGETARCH", "riscv64"}}), HasSubstr("amd64 and arm64"));
  EXPECT_THAT(MessageOf({"init"}, {{"DRIVER_TYPE", "host"}}), HasSubstr("passthrough or vgpu"));
}

base::Result<std::optional<Options>> ReadCompanion(std::vector<std::string> words,
                                                   const Variables& variables = {}) {
  words.insert(words.begin(), "nvidia-gds-driver");
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  return ReadCompanionOptions("nvidia-gds-driver", "", static_cast<int>(pointers.size()),
                              pointers.data(), variables);
}

TEST(CompanionOptions, HaveOneCommandAndWhatCompilingNeeds) {
  const auto read = ReadCompanion({"install", "-m", "3"}, {{"TARGETARCH", "arm64"},
                                                           {"MODULE_SIGNING_KEY", "/keys/a.pem"},
                                                           {"DNF_RELEASEVER", "9.4"},
                                                           {"DRIVER_TYPE", "vgpu-host-manager"}});
  ASSERT_TRUE(read.has_value()) << read.error().ToString();
  const Options& options = **read;
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.architecture, "aarch64");
  EXPECT_EQ(options.signing_certificate, "/keys/a.x509");
  EXPECT_EQ(options.release_version, "9.4");
  EXPECT_EQ(ReadCompanion({}).error().message, "write the command: install");
  EXPECT_EQ(ReadCompanion({"init"}).error().message, "write the command: install");
  EXPECT_FALSE(ReadCompanion({"install", "--driver-version", "580.95.05"}).has_value());
}

}  // namespace
}  // namespace pitcrew::node::driver_container
