#include "desired/testing/outside_operand.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "desired/daemonset.h"
#include "desired/pod.h"

namespace pitcrew::desired::testing {
namespace {

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY_ASSIGN(Object * main, RequireContainer(*daemonset, "frobnicator-ctr"));
  const api::ImageSpec image{.path = "spec.frobnicator",
                             .repository = {},
                             .image = {},
                             .version = {},
                             .pull_policy = {},
                             .pull_secrets = {}};
  TRY_ASSIGN((*main)["image"], ResolveImage(image, kOutsideImage, context.images));
  return {};
}

Operand Frobnicator() {
  return {.state = kOutsideState,
          .condition = "FrobnicatorReady",
          .title = "frobnicator",
          .name = "frobnicator",
          .daemonsets = {"nvidia-frobnicator"},
          .deploy = {.key = kOutsideLabel, .workloads = kContainers},
          .stage = Stage::kMetrics,
          .gpu_client = GpuClient::kPaused,
          .leaves_for = {NodeChange::kMig},
          .images = {kOutsideImage},
          .blocks = {"spec.frobnicator"},
          .mode =
              [](const api::ClusterPolicy& policy) {
                return policy.psa_enabled ? Mode::kEnabled : Mode::kDisabled;
              },
          .customize = Customize};
}

// The manifests of testing/manifests/<state>/, as the build embeds the product's.
std::vector<Manifest> ManifestsOfFolder() {
  static const std::vector<std::pair<std::string, std::string>> kFiles = [] {
    std::vector<std::pair<std::string, std::string>> files;
    const std::filesystem::path folder =
        std::filesystem::path(PITCREW_TESTING_MANIFESTS) / kOutsideState;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      files.emplace_back(entry.path().filename().string(),
                         base::ReadFile(entry.path()).value_or(""));
    }
    std::ranges::sort(files);
    return files;
  }();
  std::vector<Manifest> manifests;
  for (const auto& [file, text] : kFiles) {
    manifests.push_back({.state = kOutsideState, .file = file, .text = text});
  }
  return manifests;
}

}  // namespace

const OperandTable& TableWithOutsideOperand() {
  static const std::vector<Manifest> kManifests = [] {
    std::vector<Manifest> all(EmbeddedManifests().begin(), EmbeddedManifests().end());
    std::ranges::copy(ManifestsOfFolder(), std::back_inserter(all));
    return all;
  }();
  static const OperandTable kTable(
      [] {
        std::vector<Operand> operands(Operands().begin(), Operands().end());
        operands.push_back(Frobnicator());
        return operands;
      }(),
      kManifests);
  return kTable;
}

}  // namespace pitcrew::desired::testing
