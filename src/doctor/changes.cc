#include "doctor/changes.h"

#include <fmt/format.h>

#include "doctor/text.h"

namespace pitcrew::doctor {

Facts FactsOf(const fleet::Report& report) {
  Facts facts;
  if (report.policy) facts["ClusterPolicy " + report.policy->name] = report.policy->state;
  for (const auto& operand : report.operands) {
    facts["operand " + operand.name] =
        fmt::format("{} of {} ready", operand.ready, operand.desired);
  }
  for (const auto& node : report.nodes) {
    facts["node " + node.name] =
        node.broken ? fmt::format("{}: {}", ToString(node.stage), node.broken->summary)
                    : fmt::format("ready, GPUs {}", Gpus(node));
  }
  for (const auto& finding : report.pods) facts[finding.object] = finding.summary;
  for (const auto& finding : report.cluster) {
    facts[fmt::format("cluster {}", finding.id)] = finding.summary;
  }
  for (const auto& unread : report.unread) facts["not known: " + unread.what] = unread.reason;
  return facts;
}

std::vector<std::string> Changes(const Facts& before, const Facts& now) {
  std::vector<std::string> lines;
  for (const auto& [what, state] : now) {
    const auto known = before.find(what);
    if (known == before.end() || known->second != state) {
      lines.push_back(fmt::format("{}: {}", what, state));
    }
  }
  for (const auto& [what, state] : before) {
    if (!now.contains(what)) lines.push_back(fmt::format("{}: gone", what));
  }
  return lines;
}

}  // namespace pitcrew::doctor
