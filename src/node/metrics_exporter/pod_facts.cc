#include "node/metrics_exporter/pod_facts.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/log.h"
#include "kube/projection.h"

namespace pitcrew::node::metrics_exporter {
namespace {

// Labels that series have of their own.
constexpr std::array<std::string_view, 19> kOwnNames = {
    "gpu",      "UUID",     "uuid",    "pci_bus_id",    "device",   "modelName", "model_name",
    "hostname", "Hostname", "nvlink",  "nvswitch",      "gpu_uuid", "cpu",       "cpucore",
    "err_code", "GPU_I_ID", "err_msg", "GPU_I_PROFILE", "le"};

}  // namespace

struct LabelFilter::Patterns {
  std::vector<std::unique_ptr<re2::RE2>> all;
};

LabelFilter::LabelFilter(const std::vector<std::string>& patterns)
    : patterns_(std::make_unique<Patterns>()) {
  for (const auto& pattern : patterns) {
    auto compiled = std::make_unique<re2::RE2>(pattern, re2::RE2::Quiet);
    if (compiled->ok()) {
      patterns_->all.push_back(std::move(compiled));
    } else {
      warnings_.push_back(fmt::format("the pattern \"{}\" for pod labels is left out: {}", pattern,
                                      compiled->error()));
    }
  }
  if (!patterns.empty() && patterns_->all.empty()) {
    warnings_.emplace_back("no pattern for pod labels is usable: all labels are allowed");
  }
}
LabelFilter::~LabelFilter() = default;
LabelFilter::LabelFilter(LabelFilter&&) noexcept = default;

bool LabelFilter::Allows(std::string_view label) const {
  const re2::StringPiece text(label.data(), label.size());
  return patterns_->all.empty() || std::ranges::any_of(patterns_->all, [&](const auto& pattern) {
           return re2::RE2::PartialMatch(text, *pattern);
         });
}

std::string LabelName(std::string_view pod_label) {
  std::string name;
  for (const char c : pod_label) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += fits ? c : '_';
  }
  // Names that begin with a digit, or with two underscores, are not Prometheus' to give.
  if (!name.empty() && name.front() >= '0' && name.front() <= '9') name.insert(0, "_");
  if (std::ranges::find(kOwnNames, name) != kOwnNames.end() || name.starts_with("__")) return "";
  return name;
}

Attributes SeriesLabels(const std::vector<std::pair<std::string, std::string>>& pod_labels,
                        const LabelFilter& filter) {
  std::map<std::string, std::string> named;
  for (const auto& [label, value] : pod_labels) {
    if (!filter.Allows(label)) continue;
    // Of two labels that become one name, the first counts.
    if (auto name = LabelName(label); !name.empty()) named.emplace(std::move(name), value);
  }
  return {named.begin(), named.end()};
}

std::unique_ptr<PodWatch> PodWatch::Start(std::shared_ptr<kube::Client> client,
                                          const PodFactsOptions& options) {
  std::unique_ptr<PodWatch> watch(new PodWatch());
  auto filter = std::make_shared<LabelFilter>(options.label_patterns);
  for (const auto& warning : filter->warnings()) base::LogWarning(warning);
  kube::InformerOptions informer;
  if (options.node_name.empty()) {
    base::LogWarning("NODE_NAME is not set: the pods of all nodes are watched");
  } else {
    informer.field_selector = "spec.nodeName=" + options.node_name;
  }
  const auto project = [filter, labels = options.labels](const codec::Json& pod) {
    PodFacts facts;
    const auto& metadata = pod.at("metadata");
    facts.uid = metadata.value("uid", "");
    if (!labels || !metadata.contains("labels")) return base::Result<PodFacts>(std::move(facts));
    std::vector<std::pair<std::string, std::string>> of_pod;
    for (const auto& [name, value] : metadata.at("labels").items()) {
      of_pod.emplace_back(name, value.get<std::string>());
    }
    facts.labels = SeriesLabels(of_pod, *filter);
    return base::Result<PodFacts>(std::move(facts));
  };
  watch->informer_ = std::make_unique<kube::Informer<PodFacts>>(
      std::move(client), kube::kPods, kube::ProjectJson<PodFacts>(project), std::move(informer));
  watch->informer_->Start();
  return watch;
}

PodFactsByName PodWatch::Facts() const {
  PodFactsByName facts;
  for (const auto& [key, view] : informer_->store().Snapshot()) {
    facts.emplace(fmt::format("{}/{}", key.namespace_name, key.name), *view);
  }
  return facts;
}

}  // namespace pitcrew::node::metrics_exporter
