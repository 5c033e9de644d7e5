#include "doctor/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "api/labels.h"
#include "base/strings.h"
#include "doctor/table.h"

namespace pitcrew::doctor {
namespace {

using fleet::Finding;
using fleet::NodeReport;
using fleet::Report;
using fleet::Stage;

constexpr std::size_t kMostRows = 30;      // nodes told one by one
constexpr std::size_t kMostExamples = 5;   // names in a sum
constexpr std::size_t kMostFindings = 20;  // pods told in full

Colour ColourOf(Stage stage) { return stage == Stage::kReady ? Colour::kGood : Colour::kBad; }

std::string Reason(const NodeReport& node) { return node.broken ? node.broken->summary : ""; }

// "a, b, c and 7 more".
std::string Examples(const std::vector<std::string>& names) {
  std::vector<std::string> first(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostExamples)));
  std::string text = base::Join(first, ", ");
  if (names.size() > first.size()) text += fmt::format(" and {} more", names.size() - first.size());
  return text;
}

std::string PolicyLines(const Report& report, const TextOptions& options) {
  if (!report.policy) return "ClusterPolicy: none\n";
  const auto& policy = *report.policy;
  const bool ready = policy.state == "ready";
  std::string text =
      fmt::format("ClusterPolicy {}: {}{}\n", policy.name,
                  Paint(policy.state, ready ? Colour::kGood : Colour::kBad, options.colours),
                  policy.since ? fmt::format(", for {}", Age(policy.since, report.now)) : "");
  if (!policy.message.empty()) text += fmt::format("  {}\n", policy.message);
  return text;
}

std::string OperandLines(const Report& report, const TextOptions& options) {
  Table table({"OPERAND", "READY", "BEHIND", "REASON"});
  for (const auto& operand : report.operands) {
    const bool ready = operand.behind.empty() && operand.ready >= operand.desired;
    table.Add({operand.name, fmt::format("{}/{}", operand.ready, operand.desired), operand.behind,
               operand.reason},
              ready ? Colour::kGood : Colour::kBad, 1);
  }
  return table.empty() ? "" : "\n" + table.Text(options.colours, options.width);
}

std::string DriverLines(const Report& report, const TextOptions& options) {
  Table table({"NVIDIADRIVER", "STATE", "NODES", "VERSION", "UPGRADE", "REASON"});
  for (const auto& driver : report.drivers) {
    std::vector<std::string> upgrade;
    for (const auto& [state, count] : driver.upgrade) {
      upgrade.push_back(fmt::format("{} {}", count, state));
    }
    table.Add({driver.name, driver.state, fmt::format("{}", driver.nodes), driver.version,
               base::Join(upgrade, ", "), driver.held.empty() ? driver.message : driver.held},
              driver.state == "ready" ? Colour::kGood : Colour::kBad, 1);
  }
  return table.empty() ? "" : "\n" + table.Text(options.colours, options.width);
}

std::string UpgradeLines(const Report& report) {
  if (!report.upgrade) return "";
  std::vector<std::string> parts;
  for (const auto& [state, count] : report.upgrade->states) {
    parts.push_back(fmt::format("{} {}", count, state));
  }
  std::string text = fmt::format("\nDriver upgrade: {}\n", base::Join(parts, ", "));
  if (!report.upgrade->held.empty()) {
    text += fmt::format("  no other node begins now: {}\n", report.upgrade->held);
  }
  return text;
}

std::string NodeLines(const Report& report, const TextOptions& options) {
  // A column only where some node was ever qualified.
  const bool qualified = std::ranges::any_of(
      report.nodes, [](const auto& node) { return !node.qualification.empty(); });
  std::vector<std::string> titles = {"NODE", "WORKLOAD", "STAGE", "GPUS", "FOR"};
  if (qualified) titles.emplace_back("QUALIFIED");
  if (options.wide) titles.insert(titles.end(), {"PRODUCT", "DRIVER"});
  titles.emplace_back("REASON");
  Table table(std::move(titles));
  for (const NodeReport& node : report.nodes) {
    std::vector<std::string> cells = {node.name, std::string(ToString(node.workload)),
                                      std::string(ToString(node.stage)), Gpus(node),
                                      Age(node.since, report.now)};
    if (qualified) cells.push_back(node.qualification.empty() ? "-" : node.qualification);
    if (options.wide) cells.insert(cells.end(), {node.product, node.driver_version});
    cells.push_back(Reason(node));
    table.Add(std::move(cells), ColourOf(node.stage), 2);
  }
  return table.Text(options.colours, options.width);
}

// Nodes that are alike, in one row.
std::string NodeSums(const Report& report, const TextOptions& options) {
  struct Sum {
    std::vector<std::string> names;
    fleet::Time longest;
  };
  std::map<std::tuple<Stage, std::string, std::string>, Sum> sums;
  for (const NodeReport& node : report.nodes) {
    Sum& sum = sums[{node.stage, std::string(ToString(node.workload)),
                     node.broken ? node.broken->id : ""}];
    sum.names.push_back(node.name);
    if (node.since && (!sum.longest || *node.since < *sum.longest)) sum.longest = node.since;
  }
  Table table({"NODES", "WORKLOAD", "STAGE", "LONGEST", "REASON", "EXAMPLES"});
  for (const auto& [key, sum] : sums) {
    const auto& [stage, workload, id] = key;
    table.Add({fmt::format("{}", sum.names.size()), workload, std::string(ToString(stage)),
               Age(sum.longest, report.now), id, Examples(sum.names)},
              ColourOf(stage), 2);
  }
  return table.Text(options.colours, options.width);
}

std::string NodePart(const Report& report, const TextOptions& options) {
  std::string text =
      fmt::format("\nGPU nodes: {} of {} ready", report.ready_nodes(), report.nodes.size());
  if (report.other_nodes > 0) text += fmt::format("; nodes without a GPU: {}", report.other_nodes);
  text += "\n";
  if (!report.undiscovered.empty()) {
    text += fmt::format("Not known (no label of node feature discovery): {}\n",
                        Examples(report.undiscovered));
  }
  if (report.nodes.empty()) return text;
  const bool sum = !options.all && report.nodes.size() > kMostRows;
  return text + (sum ? NodeSums(report, options) : NodeLines(report, options));
}

// What could not be read: nobody shall take silence for health.
std::string UnreadLines(const Report& report) {
  if (report.unread.empty()) return "";
  std::string text = "\nNot known, because it could not be read:\n";
  for (const auto& unread : report.unread) {
    text += fmt::format("  {}: {}\n", unread.what, unread.reason);
  }
  return text;
}

std::string FindingCounts(const Report& report, const TextOptions& options) {
  std::string text;
  if (!report.pods.empty()) {
    std::vector<std::string> names;
    for (const Finding& finding : report.pods) names.push_back(finding.object.substr(4));
    text +=
        fmt::format("\n{} {}: {}\n",
                    Paint("Pods that ask for GPUs and do not run", Colour::kBad, options.colours),
                    report.pods.size(), Examples(names));
  }
  for (const Finding& finding : report.cluster) {
    text +=
        fmt::format("\n{} {}\n", Paint("Cluster:", Colour::kBad, options.colours), finding.summary);
  }
  return text;
}

// --- doctor
// ---------------------------------------------------------------------------------------

constexpr std::string_view kMargin = "            ";
constexpr std::size_t kLineLength = 88;  // behind the margin

// Breaks a line at spaces; words that are longer than a line stay whole. Commands ("$ ...") are for
// copying, and are not broken.
std::vector<std::string> Wrap(const std::string& line) {
  if (line.starts_with("$ ") || line.size() <= kLineLength) return {line};
  std::vector<std::string> lines(1);
  for (const std::string& word : base::Split(line, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > kLineLength) {
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

// `text` behind a word of the margin, further lines below it.
std::string Indented(std::string_view word, std::string_view text) {
  std::string lines = fmt::format("  {:<10}", word);
  bool first = true;
  for (const std::string& paragraph : base::Split(text, '\n')) {
    for (const std::string& line : Wrap(paragraph)) {
      if (!first) lines += kMargin;
      lines += line + "\n";
      first = false;
    }
  }
  return lines;
}

std::string FindingLines(const Finding& finding, const Report& report) {
  std::string text;
  std::string_view word = "evidence";
  for (const fleet::Evidence& evidence : finding.evidence) {
    std::string line = evidence.object;
    if (!evidence.field.empty()) line += ", " + evidence.field;
    if (evidence.at) line += fmt::format(" ({} ago)", Age(evidence.at, report.now));
    // Words of others are told as they are, to be searched for.
    text += fmt::format("  {:<10}{}:\n{}  {}\n", word, line, kMargin, evidence.text);
    word = "";
  }
  return text + Indented("fix", finding.fix);
}

std::string Chain(const NodeReport& node, bool colours) {
  std::vector<std::string> links;
  bool reached = true;
  for (const Stage stage : node.links) {
    if (!reached) break;
    const bool broken = stage == node.stage;
    links.push_back(Paint(fmt::format("{}{}", ToString(stage), broken ? " BROKEN" : ""),
                          broken ? Colour::kBad : Colour::kGood, colours));
    reached = !broken;
  }
  return base::Join(links, " > ");
}

std::string NodeInFull(const NodeReport& node, const Report& report, const TextOptions& options) {
  const std::string state = node.ready() ? "ready" : "not ready";
  std::string text = fmt::format("Node {} ({}", node.name, ToString(node.workload));
  if (!node.product.empty()) text += ", " + node.product;
  text += fmt::format("): {}", Paint(state, ColourOf(node.stage), options.colours));
  if (node.since) text += fmt::format(", for {}", Age(node.since, report.now));
  text += "\n";
  text += Indented("chain", Chain(node, options.colours));
  if (!node.upgrade_waits.empty()) {
    text += Indented("upgrade", "waits: " + node.upgrade_waits);
  }
  if (!node.broken) return text + Indented("GPUs", Gpus(node));
  text += Indented("broken", fmt::format("{} ({})", node.broken->summary, node.broken->id));
  return text + FindingLines(*node.broken, report);
}

// Each kind of trouble once, with the names of all nodes that have it.
std::string NodesByFinding(const Report& report, const TextOptions& options) {
  std::vector<std::pair<const NodeReport*, std::vector<std::string>>> groups;
  for (const NodeReport& node : report.nodes) {
    if (!node.broken) continue;
    const auto same = std::ranges::find_if(groups, [&](const auto& group) {
      return group.first->broken->id == node.broken->id && group.first->stage == node.stage;
    });
    if (same == groups.end()) {
      groups.push_back({&node, {}});
    } else {
      same->second.push_back(node.name);
    }
  }
  std::string text;
  for (const auto& [first, others] : groups) {
    text += NodeInFull(*first, report, options);
    if (!others.empty()) {
      text +=
          Indented("also", fmt::format("{} (pitcrew doctor NODE tells each)",
                                       options.all ? base::Join(others, ", ") : Examples(others)));
    }
    text += "\n";
  }
  return text;
}

// What concerns all nodes comes first: often it is why they are not ready.
std::string ClusterFindings(const Report& report, const TextOptions& options) {
  std::string text;
  for (const Finding& finding : report.cluster) {
    text += Paint("Cluster", Colour::kBad, options.colours) + "\n";
    text += Indented("broken", fmt::format("{} ({})", finding.summary, finding.id));
    text += FindingLines(finding, report) + "\n";
  }
  return text;
}

// Nodes that stand still in a roll-out of the driver, with the reason of each.
std::string UpgradeWaits(const Report& report, const TextOptions& options) {
  if (!report.upgrade || report.upgrade->waiting.empty()) return "";
  std::string text = "Driver upgrade\n";
  for (const auto& [why, nodes] : report.upgrade->waiting) {
    text += Indented(
        "waiting",
        fmt::format("{}: {}", options.all ? base::Join(nodes, ", ") : Examples(nodes), why));
  }
  return text + "\n";
}

std::string PodFindings(const Report& report, const TextOptions& options) {
  std::string text;
  std::size_t told = 0;
  for (const Finding& finding : report.pods) {
    if (!options.all && ++told > kMostFindings) {
      text += fmt::format("{} more pods do not run; --all tells them\n\n",
                          report.pods.size() - kMostFindings);
      break;
    }
    text += fmt::format("{}: {}{}\n", finding.object,
                        Paint("does not run with a GPU", Colour::kBad, options.colours),
                        finding.since ? ", for " + Age(finding.since, report.now) : "");
    text += Indented("broken", fmt::format("{} ({})", finding.summary, finding.id));
    text += FindingLines(finding, report) + "\n";
  }
  for (const std::string& pod : report.pods_without_findings) {
    text += fmt::format("Pod {}: nothing is found to be wrong with it\n\n", pod);
  }
  return text;
}

}  // namespace

std::string Age(fleet::Time since, base::WallClock::time_point now) {
  if (!since) return "-";
  const auto seconds = std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::seconds>(now - *since).count());
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  if (seconds < 2 * kMinute) return fmt::format("{}s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{}m", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{}h", seconds / kHour);
  return fmt::format("{}d", seconds / kDay);
}

std::string Gpus(const NodeReport& node) {
  std::string text;
  for (const auto& offer : node.offers) {
    if (offer.former || (offer.capacity == 0 && node.offers.size() > 1)) continue;
    if (!text.empty()) text += " ";
    text += fmt::format("{}/{}", offer.allocatable, offer.capacity);
    if (offer.resource != api::kGpuResource) text += " " + offer.resource;
  }
  return text.empty() ? "-" : text;
}

std::string StatusText(const Report& report, const TextOptions& options) {
  std::string text = PolicyLines(report, options) + OperandLines(report, options) +
                     DriverLines(report, options) + UpgradeLines(report) +
                     NodePart(report, options) + FindingCounts(report, options) +
                     UnreadLines(report);
  if (report.is_broken() || !report.pods.empty())
    text += "\n`pitcrew doctor` tells the evidence and the fix.\n";
  return text;
}

std::string DoctorText(const Report& report, const TextOptions& options, bool asked) {
  std::string text = asked ? "" : ClusterFindings(report, options);
  if (asked) {
    for (const NodeReport& node : report.nodes) text += NodeInFull(node, report, options) + "\n";
  } else {
    text += NodesByFinding(report, options) + UpgradeWaits(report, options);
  }
  text += PodFindings(report, options);
  if (asked) {
    text += ClusterFindings(report, options);
  } else {
    text += fmt::format("{} of {} GPU nodes are ready", report.ready_nodes(), report.nodes.size());
    const bool nothing = report.all_ready() && report.pods.empty() && report.unread.empty();
    text += nothing ? "; nothing is broken.\n" : ".\n";
    if (!report.undiscovered.empty()) {
      text += fmt::format("Not known (no label of node feature discovery): {}\n",
                          Examples(report.undiscovered));
    }
  }
  return text + UnreadLines(report);
}

}  // namespace pitcrew::doctor
