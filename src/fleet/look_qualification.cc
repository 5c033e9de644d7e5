// What a node tells of the qualification of its GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "api/qualification.h"
#include "base/clock.h"
#include "base/strings.h"
#include "fleet/operand_looks.h"

namespace pitcrew::fleet::look {

namespace {

const Taint* HoldingTaint(const Node& node) {
  const auto found = std::ranges::find_if(node.taints, [](const Taint& taint) {
    return api::IsNotQualifiedTaint(taint.key, taint.effect);
  });
  return found == node.taints.end() ? nullptr : &*found;
}

Evidence SawTaint(const Node& node, const Taint& taint) {
  return {"Node " + node.name, "spec.taints", taint.ToString(), std::nullopt};
}

}  // namespace

// Its GPUs were tested, and at least one is not as it should be.
Look NotQualified(const NodeContext& context) {
  const Node& node = context.node;
  const auto told = api::ParseQualification(Get(node.annotations, api::kQualification));
  if (!told || told->state != api::QualificationState::kFailed) return std::nullopt;
  const std::string field = fmt::format("annotation {}", api::kQualification);
  Time since;
  if (const auto time = base::ParseRfc3339(told->time)) since = *time;
  Seen seen{.summary = "the qualification of the node's GPUs came to no result",
            .evidence = {},
            .words = {},
            .since = since};
  std::vector<std::string> failed;
  for (const auto& gpu : told->gpus) {
    if (gpu.passed) continue;
    failed.push_back(std::to_string(gpu.index));
    for (const auto& failure : gpu.failures) {
      seen.evidence.push_back({"Node " + node.name,
                               fmt::format("{}, GPU {} ({})", field, gpu.index, gpu.uuid),
                               FirstLine(failure), since});
    }
  }
  if (!failed.empty()) {
    seen.summary = fmt::format("{} of the node's {} GPUs failed their qualification: GPU {}",
                               failed.size(), told->gpus.size(), base::Join(failed, ", "));
  }
  if (seen.evidence.empty()) {
    seen.evidence.push_back({"Node " + node.name, field, FirstLine(told->message), since});
  }
  if (const Taint* taint = HoldingTaint(node)) {
    seen.summary += "; it takes no pods before they pass";
    seen.evidence.push_back(SawTaint(node, *taint));
  }
  return seen;
}

Look AwaitsQualification(const NodeContext& context) {
  const Node& node = context.node;
  const Taint* taint = HoldingTaint(node);
  if (taint == nullptr) return std::nullopt;
  const std::string_view state = node.Label(api::kQualification);
  return Seen{.summary = "the node takes no pods before its GPUs have passed the qualification",
              .evidence = {SawTaint(node, *taint),
                           {"Node " + node.name, fmt::format("label {}", api::kQualification),
                            state.empty() ? "absent" : std::string(state), std::nullopt}},
              .words = {},
              .since = std::nullopt};
}

}  // namespace pitcrew::fleet::look
