#include "desired/operand_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "api/labels.h"
#include "codec/yaml.h"
#include "desired/operands/operands.h"
#include "desired/owned_object.h"

namespace pitcrew::desired {
namespace {

// Labels of pods that are no operands of a ClusterPolicy: of people's own clients, and of the
// operands of a GPUCluster. What a label "client" stands for is for people to say; the others are
// swept (reference operator-behaviour.md section 7.4).
constexpr DeployLabel kOtherLabels[] = {
    {.key = api::kDeployClient,
     .workloads = {.container = true, .passthrough = true, .vgpu = true}},
    {.key = api::kDeployDraValidator},
    {.key = api::kDeployDcgmDra},
    {.key = api::kDeployDcgmExporterDra},
};
// Reference driver-lifecycle.md section 4.5.
constexpr PausedPods kOtherPausedPods[] = {
    {api::kDeployClient, ""},
    {api::kDeployNvsm, ""},
    {api::kDeployDraValidator, ""},
    {api::kDeployDcgmDra, "nvidia-dcgm-dra"},
    {api::kDeployDcgmExporterDra, "nvidia-dcgm-exporter-dra"},
    {api::kDeployDraDriver, "nvidia-dra-driver-kubelet-plugin"},
};

// Made on OpenShift without a manifest (reference operator-behaviour.md section 14).
constexpr std::string_view kTrustedCa = "gpu-operator-trusted-ca";

template <class Value>
void AddOnce(std::vector<Value>& values, const Value& value) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(value);
}

// Length of the operand's name that the DaemonSet's is or begins with; 0 when there is none.
std::size_t LengthOfMatch(const Operand& operand, std::string_view daemonset) {
  const std::string_view delegated = operand.delegated_daemonsets;
  if (!delegated.empty() && daemonset.starts_with(delegated)) return delegated.size();
  std::size_t longest = 0;
  for (const std::string_view name : operand.daemonsets) {
    if (!daemonset.starts_with(name)) continue;
    if (daemonset.size() > name.size() && daemonset[name.size()] != '-') continue;
    longest = std::max(longest, name.size());
  }
  return longest;
}

base::Result<Object> ParseManifest(const Manifest& manifest) {
  const std::string source = fmt::format("{}/{}", manifest.state, manifest.file);
  TRY_ASSIGN(Object object, codec::ParseYaml(manifest.text, source));
  if (codec::FindString(object, {"kind"}).empty()) {
    return base::Fail(base::Internal("ManifestWithoutKind", fmt::format("{} has no kind", source)));
  }
  return object;
}

}  // namespace

OperandTable::OperandTable(std::vector<Operand> operands, std::span<const Manifest> manifests)
    : operands_(std::move(operands)), manifests_(manifests) {
  for (const Operand& operand : operands_) {
    if (operand.stage) chain_.push_back(&operand);
    const auto& key = operand.deploy.key;
    if (!key.empty() &&
        std::ranges::find(deploy_labels_, key, &DeployLabel::key) == deploy_labels_.end()) {
      deploy_labels_.push_back(operand.deploy);
    }
    for (const std::string_view variable : operand.images) AddOnce(image_variables_, variable);
    if (operand.gpu_client != GpuClient::kPaused) continue;
    for (const std::string_view name : operand.daemonsets) paused_pods_.push_back({key, name});
  }
  std::ranges::stable_sort(chain_, {}, [](const Operand* operand) {
    return std::pair(*operand->stage, operand->rank_in_stage);
  });
  std::ranges::copy(kOtherLabels, std::back_inserter(deploy_labels_));
  std::ranges::copy(kOtherPausedPods, std::back_inserter(paused_pods_));
}

std::vector<PausedPods> OperandTable::PodsLeavingFor(NodeChange change) const {
  std::vector<PausedPods> pods;
  for (const Operand& operand : operands_) {
    if (std::ranges::find(operand.leaves_for, change) == operand.leaves_for.end()) continue;
    for (const std::string_view name : operand.daemonsets) {
      pods.push_back({operand.deploy.key, name});
    }
  }
  return pods;
}

std::vector<std::string_view> OperandTable::LabelsLeavingFor(NodeChange change) const {
  std::vector<std::string_view> labels;
  for (const auto& pods : PodsLeavingFor(change)) AddOnce(labels, pods.label);
  return labels;
}

const Operand* OperandTable::OfState(std::string_view state) const {
  const auto found = std::ranges::find(operands_, state, &Operand::state);
  return found == operands_.end() ? nullptr : &*found;
}

const Operand* OperandTable::OfDaemonSet(std::string_view daemonset) const {
  // Of names that begin with each other the longest counts: nvidia-dcgm, nvidia-dcgm-exporter.
  const Operand* found = nullptr;
  std::size_t longest = 0;
  for (const Operand& operand : operands_) {
    const std::size_t matched = LengthOfMatch(operand, daemonset);
    if (matched <= longest) continue;
    found = &operand;
    longest = matched;
  }
  return found;
}

std::set<std::string, std::less<>> OperandTable::AppsOf(
    const std::vector<std::string_view>& deploy_labels) const {
  std::set<std::string, std::less<>> apps;
  for (const Operand& operand : operands_) {
    if (std::ranges::find(deploy_labels, operand.deploy.key) == deploy_labels.end()) continue;
    for (const std::string_view name : operand.daemonsets) apps.emplace(name);
  }
  return apps;
}

const Operand& OperandTable::Named(std::string_view name) const {
  const auto found = std::ranges::find(operands_, name, &Operand::name);
  if (found == operands_.end()) std::abort();
  return *found;
}

const std::vector<base::Result<Object>>& OperandTable::Parsed() const {
  std::call_once(parsed_once_, [this] {
    for (const Manifest& manifest : manifests_) parsed_.push_back(ParseManifest(manifest));
  });
  return parsed_;
}

base::Result<std::vector<Object>> OperandTable::LoadManifests(std::string_view state,
                                                              bool openshift) const {
  const auto& parsed = Parsed();
  std::vector<Object> objects;
  for (std::size_t i = 0; i < manifests_.size(); ++i) {
    if (manifests_[i].state != state) continue;
    if (!openshift && manifests_[i].file.contains("openshift")) continue;
    TRY(parsed[i]);
    objects.push_back(*parsed[i]);
  }
  return objects;
}

const std::vector<OperandTable::ManifestName>& OperandTable::ManifestNames() const {
  std::call_once(names_once_, [this] {
    names_.push_back({kDriverState, "ConfigMap", std::string(kTrustedCa)});
    for (const Operand& operand : operands_) {
      const auto objects = LoadManifests(operand.state, true);
      if (!objects) continue;  // a test parses them all
      for (const Object& object : *objects) {
        names_.push_back({operand.state, codec::FindString(object, {"kind"}),
                          codec::FindString(object, {"metadata", "name"})});
      }
    }
  });
  return names_;
}

std::string_view OperandTable::StateOfName(const codec::Json& object) const {
  const std::string kind = codec::FindString(object, {"kind"});
  const std::string name = codec::FindString(object, {"metadata", "name"});
  const ManifestName* best = nullptr;
  for (const ManifestName& known : ManifestNames()) {
    if (known.kind != kind) continue;
    const bool variant = kind == "DaemonSet" && name.starts_with(known.name + "-");
    if (name != known.name && !variant) continue;
    if (best == nullptr || known.name.size() > best->name.size()) best = &known;
  }
  if (best != nullptr) return best->state;
  // Named by spec.operator.runtimeClass.
  const bool runtime_class =
      kind == "RuntimeClass" &&
      codec::FindString(object, {"metadata", "labels", api::kComponentLabel}) == "gpu-operator";
  return runtime_class ? "pre-requisites" : "";
}

}  // namespace pitcrew::desired
