#include "node/metrics_exporter/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace pitcrew::node::metrics_exporter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Variables = std::map<std::string, std::string>;

base::Result<std::optional<Options>> Read(std::vector<const char*> words,
                                          const Variables& variables = {}) {
  words.insert(words.begin(), "dcgm-exporter");
  return ReadOptions(static_cast<int>(words.size()), words.data(),
                     [variables](const std::string& name) -> std::optional<std::string> {
                       const auto found = variables.find(name);
                       if (found == variables.end()) return std::nullopt;
                       return found->second;
                     });
}

std::string WrongOptions(std::vector<const char*> words, const Variables& variables = {}) {
  const auto options = Read(std::move(words), variables);
  return options ? "" : options.error().message;
}

TEST(Options, DefaultsAreUpstreams) {
  const auto options = **Read({});
  EXPECT_EQ(options.counter_file, "/etc/dcgm-exporter/default-counters.csv");
  EXPECT_EQ(options.address, ":9400");
  EXPECT_EQ(options.interval, std::chrono::seconds(30));
  EXPECT_EQ(options.windows.xids, std::chrono::minutes(5));
  EXPECT_FALSE(options.kubernetes);
  EXPECT_EQ(options.pod_resources, "/var/lib/kubelet/pod-resources/kubelet.sock");
  EXPECT_EQ(options.hostname_label, "hostname");
}

TEST(Options, AFlagWinsOverItsVariable) {
  RecordProperty("holds", "metrics-exporter.md #11");
  EXPECT_EQ((**Read({}, {{"DCGM_EXPORTER_LISTEN", ":9500"}})).address, ":9500");
  EXPECT_EQ((**Read({"--address=:9600"}, {{"DCGM_EXPORTER_LISTEN", ":9500"}})).address, ":9600");
  EXPECT_EQ((**Read({"-a", ":9700"})).address, ":9700");
}

TEST(Options, LevelsOfDcgmsLogAreChecked) {
  RecordProperty("holds", "metrics-exporter.md #12");
  EXPECT_THAT(WrongOptions({"--dcgm-log-level=FOO"}),
              HasSubstr("invalid dcgm-log-level parameter value: FOO"));
  EXPECT_EQ(WrongOptions({"--dcgm-log-level=VERB"}), "");
}

TEST(Options, DevicesAreSelectedByUpstreamsGrammar) {
  RecordProperty("holds", "metrics-exporter.md #13");
  const auto selected = (**Read({"-d", "g:0-1,3"})).gpus;
  EXPECT_EQ(selected.kind, DeviceSelection::Kind::kWhole);
  EXPECT_THAT(selected.ids, ElementsAre(0, 1, 3));
  EXPECT_THAT((**Read({"-d", "i"})).gpus.ids, IsEmpty());
  for (const char* wrong : {"f:1", "g:1:2", "x", "g:1-2-3", "g+i", "g:", "g:a", "g:3-1", ""}) {
    EXPECT_THAT(WrongOptions({"-d", wrong}), HasSubstr("--devices=")) << wrong;
  }
  EXPECT_THAT(WrongOptions({"-s", "x"}), HasSubstr("--switch-devices=x"));
  EXPECT_THAT(WrongOptions({"-p", "x"}), HasSubstr("--cpu-devices=x"));
}

TEST(Options, ARemoteHostEngineIsRefusedByThatName) {
  EXPECT_THAT(WrongOptions({}, {{"DCGM_REMOTE_HOSTENGINE_INFO", "nvidia-dcgm:5555"}}),
              HasSubstr("a remote host engine (DCGM_REMOTE_HOSTENGINE_INFO=nvidia-dcgm:5555)"));
}

TEST(Options, WordsAreChecked) {
  EXPECT_THAT(WrongOptions({"--kubernetes-gpu-id-type=index"}), HasSubstr("uid or device-name"));
  EXPECT_THAT(WrongOptions({"--log-format=xml"}), HasSubstr("text or json"));
  EXPECT_THAT(WrongOptions({"--hostname-label=node"}), HasSubstr("hostname or Hostname"));
  EXPECT_THAT(WrongOptions({"-c", "0"}), HasSubstr("--collect-interval=0"));
}

TEST(Options, WhatHasNoEffectIsSaidSo) {
  EXPECT_THAT((**Read({})).warnings, IsEmpty());
  for (const char* flag :
       {"--fake-gpus", "--enable-dcgm-log", "--dump-enabled", "--enable-pprof"}) {
    EXPECT_THAT((**Read({flag})).warnings,
                ElementsAre(HasSubstr(std::string(flag) + " has no effect")));
  }
}

TEST(Options, SwitchesAreOffUntilTheyAreGiven) {
  const auto off = **Read({});
  EXPECT_FALSE(off.replace_blanks || off.old_namespace || off.no_hostname || off.claims ||
               off.pod_labels || off.pods.pod_uids || off.pods.virtual_gpus);
  EXPECT_EQ(off.log.level, base::LogLevel::kInfo);
  EXPECT_EQ((**Read({"--debug"})).log.level, base::LogLevel::kDebug);
}

TEST(Options, AConfigMapHasANamespaceAndAName) {
  RecordProperty("holds", "metrics-exporter.md #10");
  EXPECT_EQ((**Read({"-m", "none"})).config_map, "");
  EXPECT_EQ((**Read({"-m", "gpu:counters"})).config_map, "gpu:counters");
  EXPECT_THAT(WrongOptions({"-m", "counters"}), HasSubstr("namespace:name"));
  EXPECT_THAT(WrongOptions({"-m", "a:b:c"}), HasSubstr("namespace:name"));
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter
