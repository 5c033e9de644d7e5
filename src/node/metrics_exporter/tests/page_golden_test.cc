// Pages: one folder per case below data/page, with a node, a counter file, NVML's answers and pods.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "node/metrics_exporter/job_mapping.h"
#include "node/metrics_exporter/pod_facts.h"
#include "node/metrics_exporter/round.h"
#include "node/metrics_exporter/text.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"
#include "tests/support/inventory_yaml.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using codec::Json;

// A number, a text, or nothing where NVML does not support it.
nvml::Answer AnswerFrom(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return nvml::Silence::kNotSupported;
}

// What NVML answers to the question of a counter: answers has, by counter, a value for all, or one
// for each GPU ("0") and instance ("0-7").
nvml::Answer AnswerTo(const Json& answers, const std::vector<Counter>& counters,
                      const nvml::Question& question, const std::string& device) {
  for (const auto& counter : counters) {
    if (counter.field == nullptr || QuestionFor(*counter.field, std::nullopt) != question) continue;
    if (counter.field->source.kind != Source::Kind::kQuestion || !answers.contains(counter.name)) {
      continue;
    }
    const auto& given = answers.at(counter.name);
    return AnswerFrom(given.is_object() ? given.value(device, Json()) : given);
  }
  return nvml::Silence::kNotSupported;
}

std::vector<base::Result<nvml::GpuAnswers>> Answers(const Json& input, const Plan& plan,
                                                    const gpu::Inventory& inventory,
                                                    const std::vector<Counter>& counters) {
  const auto given = input.value("answers", Json::object());
  const auto lost = input.value("lost", std::vector<std::string>());
  std::vector<base::Result<nvml::GpuAnswers>> all;
  for (const auto& gpu : plan.questions) {
    if (std::ranges::find(lost, gpu.uuid) != lost.end()) {
      all.emplace_back(base::Fail(base::Unavailable("GpuIsLost", "gone")));
      continue;
    }
    const auto number = std::to_string(inventory.FindDevice(gpu.uuid)->index);
    nvml::GpuAnswers answers{TimePoint() + std::chrono::hours(1), {}};
    for (const auto& part : gpu.parts) {
      const auto device =
          part.gpu_instance ? fmt::format("{}-{}", number, *part.gpu_instance) : number;
      nvml::PartAnswers of_part;
      for (const auto& question : part.questions) {
        of_part.answers.push_back(AnswerTo(given, counters, question, device));
      }
      answers.parts.push_back(std::move(of_part));
    }
    all.emplace_back(std::move(answers));
  }
  return all;
}

std::vector<rpc::PodDevices> PodsFrom(const Json& list) {
  std::vector<rpc::PodDevices> pods;
  for (const auto& entry : list) {
    rpc::PodDevices pod{entry.value("namespace", "default"), entry.at("name"), {}};
    const auto container = entry.value("container", "main");
    if (entry.contains("devices")) {
      pod.devices.push_back(
          {entry.value("resource", "nvidia.com/gpu"), entry.at("devices"), container});
    }
    for (const auto& claim : entry.value("claims", Json::array())) {
      pod.claims.push_back({container, pod.namespace_name, claim.at("name"),
                            claim.value("driver", "gpu.nvidia.com"), claim.value("pool", "node-a"),
                            claim.at("device")});
    }
    pods.push_back(std::move(pod));
  }
  return pods;
}

PodFactsByName FactsFrom(const Json& list, const std::vector<std::string>& patterns) {
  const LabelFilter filter(patterns);
  PodFactsByName facts;
  for (const auto& entry : list) {
    std::vector<std::pair<std::string, std::string>> labels;
    const auto given = entry.value("labels", Json::object());
    for (const auto& [name, value] : given.items()) {
      labels.emplace_back(name, value.get<std::string>());
    }
    facts[fmt::format("{}/{}", entry.value("namespace", "default"), entry.value("name", ""))] = {
        entry.value("uid", ""), SeriesLabels(labels, filter)};
  }
  return facts;
}

// input.yaml: inventory, counters (CSV), answers, lost (UUIDs), xids ({gpu, instance, xid}), pods
// (devices, claims), slices (ResourceSlices), jobs, allow (patterns), options (old_namespace,
// virtual_gpus, pod_uids, hostname, resource_names, replace_blanks, devices).
base::Result<std::string> Page(const Json& input) {
  TRY_ASSIGN(const auto inventory, test_support::InventoryFrom(input.at("inventory")));
  TRY_ASSIGN(const auto file, ParseCounters(input.at("counters").get<std::string>(), "counters"));
  const auto options = input.value("options", Json::object());
  PlanOptions plan_options;
  plan_options.replace_blanks = options.value("replace_blanks", false);
  TRY_ASSIGN(plan_options.gpus, ParseDeviceSelection(options.value("devices", "f"), "devices"));
  const auto plan = MakePlan(file.counters, inventory, {}, plan_options);
  const auto answers = Answers(input, plan, inventory, file.counters);
  History history;
  const auto now = TimePoint() + std::chrono::hours(1);
  for (const auto& event : input.value("xids", Json::array())) {
    std::optional<unsigned> instance;
    if (event.contains("instance")) instance = event.at("instance").get<unsigned>();
    history.xids.Add(now, event.at("gpu"), instance, event.at("xid"));
  }
  const auto round = MakeRound({.counters = file.counters,
                                .inventory = inventory,
                                .plan = plan,
                                .answers = answers,
                                .now = now,
                                .windows = {}},
                               history);
  PodMapOptions pod_options;
  pod_options.old_namespace = options.value("old_namespace", false);
  pod_options.virtual_gpus = options.value("virtual_gpus", false);
  pod_options.pod_uids = options.value("pod_uids", false);
  pod_options.resource_names = options.value("resource_names", std::vector<std::string>());
  const auto pods = input.value("pods", Json::array());
  std::vector<PublishedSlice> slices;
  for (const auto& slice : input.value("slices", Json::array())) slices.push_back(ReadSlice(slice));
  auto owners = MapOwners(round, PodsFrom(pods),
                          FactsFrom(pods, input.value("allow", std::vector<std::string>())), {},
                          pod_options, DevicesOf(slices));
  Jobs jobs;
  const auto given_jobs = input.value("jobs", Json::object());
  for (const auto& [device, of_device] : given_jobs.items()) {
    jobs[device] = of_device.get<std::vector<std::string>>();
  }
  AddJobs(round, jobs, owners);
  return ToText(round, owners,
                {.old_namespace = pod_options.old_namespace,
                 .hostname = options.value("hostname", "node-a"),
                 .hostname_label = options.value("hostname_label", "hostname")});
}

TEST(PageGolden, EachCaseIsThisPage) {
  const auto cases = test_support::ReadGoldenCases(test_support::TestData() / "page");
  ASSERT_FALSE(cases.empty());
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    const auto page = Page(one.input);
    ASSERT_TRUE(page) << page.error().ToString();
    EXPECT_EQ(*page, one.expected.at("page").get<std::string>());
  }
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter
