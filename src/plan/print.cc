#include "plan/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "base/strings.h"
#include "codec/yaml.h"
#include "plan/upgrades.h"

namespace pitcrew::plan {
namespace {

using codec::Json;

constexpr std::size_t kLongestValue = 200;  // characters of a value in a line
constexpr std::size_t kMostNames = 8;       // of nodes that change alike

Json IdentityOf(const Json& object) {
  Json identity = {{"apiVersion", codec::FindString(object, {"apiVersion"})},
                   {"kind", codec::FindString(object, {"kind"})},
                   {"metadata", {{"name", codec::FindString(object, {"metadata", "name"})}}}};
  const std::string name_space = codec::FindString(object, {"metadata", "namespace"});
  if (!name_space.empty()) identity["metadata"]["namespace"] = name_space;
  return identity;
}

// The documents of a plan, in its order.
std::vector<Json> Documents(const Plan& plan, bool uninstall) {
  std::vector<Json> documents;
  for (const Item& item : plan.items) {
    const bool goes = item.action == Action::kDelete;
    if (goes != uninstall) continue;
    documents.push_back(goes ? IdentityOf(item.object) : item.object);
  }
  return documents;
}

std::string NameOf(const Item& item) {
  const std::string name_space = item.name_space();
  return name_space.empty() ? item.name() : fmt::format("{}/{}", name_space, item.name());
}

std::string ValueText(const Json& value) {
  std::string text = codec::ToJsonText(value);
  if (text.size() <= kLongestValue) return text;
  // Not in the middle of a character.
  std::size_t end = kLongestValue;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text + "…";
}

std::string ChangeLine(const FieldChange& change) {
  if (!change.before) return fmt::format("    + {}: {}\n", change.path, ValueText(*change.after));
  if (!change.after) return fmt::format("    - {}: {}\n", change.path, ValueText(*change.before));
  return fmt::format("    ~ {}: {} -> {}\n", change.path, ValueText(*change.before),
                     ValueText(*change.after));
}

char SignOf(Action action) {
  switch (action) {
    case Action::kCreate:
      return '+';
    case Action::kChange:
      return '~';
    case Action::kDelete:
      return '-';
    case Action::kUnknown:
      return '?';
    case Action::kNone:
      break;
  }
  return ' ';
}

// What stands behind the name: "(state-dcgm; spec.dcgm.enabled: true)".
std::string Because(const Item& item) {
  std::vector<std::string> parts;
  if (!item.operand.empty()) parts.push_back(item.operand);
  if (!item.reason.empty()) parts.push_back(item.reason);
  return parts.empty() ? "" : fmt::format("  ({})", base::Join(parts, "; "));
}

std::string FieldLines(const Item& item) {
  std::string lines;
  for (const FieldChange& change : item.changes) lines += ChangeLine(change);
  return lines;
}

// Nodes with the same change and reason, in the order of their first one.
std::string NodeGroups(const std::vector<const Item*>& nodes) {
  std::map<std::string, std::vector<const Item*>> groups;
  std::vector<std::string> order;
  for (const Item* node : nodes) {
    const std::string key = Because(*node) + "\n" + FieldLines(*node);
    auto& group = groups[key];
    if (group.empty()) order.push_back(key);
    group.push_back(node);
  }
  std::string text;
  for (const std::string& key : order) {
    const auto& group = groups[key];
    std::vector<std::string> names;
    for (const Item* node : group) {
      if (names.size() < kMostNames) names.push_back(node->name());
    }
    std::string title = base::Join(names, ", ");
    if (group.size() > names.size()) {
      title += fmt::format(" and {} more (-o table names them)", group.size() - names.size());
    }
    text += fmt::format("~ change Node {}{}", title, key);
  }
  return text;
}

// What becomes of the pods of nodes whose driver is exchanged.
std::string PodLines(const DriverUpgrade& upgrade) {
  std::string text;
  std::size_t told = 0;
  std::size_t more = 0;
  for (const NodeUpgrade& node : upgrade.nodes) {
    std::string lines;
    for (const std::string& pod : node.waits_for) {
      lines += fmt::format("    . Pod {}: is waited for\n", pod);
    }
    for (const std::string& pod : node.evicted) {
      lines += fmt::format("    - Pod {}: is {}\n", pod, node.drained ? "drained" : "evicted");
    }
    for (const std::string& why : node.kept) lines += fmt::format("    ! Pod {}\n", why);
    for (const auto* refused : {&node.refused, &node.drain_refused}) {
      for (const std::string& why : *refused) lines += fmt::format("    ! Pod {}\n", why);
    }
    if (lines.empty()) continue;
    if (++told > kMostNames) {
      ++more;
      continue;
    }
    const std::string_view what = node.fails     ? "is cordoned, and its upgrade fails"
                                  : node.drained ? "is drained"
                                                 : "is cordoned";
    text += fmt::format("! upgrade Node {}  ({}; {})\n{}", node.node, upgrade.whose, what, lines);
  }
  if (more > 0) text += fmt::format("! and {} more nodes (-o json names their pods)\n", more);
  return text;
}

Json UpgradeJson(const DriverUpgrade& upgrade) {
  Json nodes = Json::array();
  for (const NodeUpgrade& node : upgrade.nodes) {
    Json entry = {{"name", node.node}, {"change", ToString(node.change)}};
    if (node.skipped) entry["skipped"] = true;
    if (node.drained) entry["drained"] = true;
    if (node.fails) entry["fails"] = true;
    const std::pair<const char*, const std::vector<std::string>*> lists[] = {
        {"waitsFor", &node.waits_for},
        {"evicted", &node.evicted},
        {"kept", &node.kept},
        {"refused", &node.refused},
        {"drainRefused", &node.drain_refused}};
    for (const auto& [name, list] : lists) {
      if (!list->empty()) entry[name] = *list;
    }
    nodes.push_back(std::move(entry));
  }
  Json json = {{"of", upgrade.whose},
               {"automatic", upgrade.automatic},
               {"note", upgrade.note},
               {"nodes", std::move(nodes)}};
  if (upgrade.evicts() && !upgrade.pods_unknown.empty()) {
    json["podsUnknown"] = upgrade.pods_unknown;
  }
  if (upgrade.evicts()) json["imageCheck"] = upgrade.policy.image_check;
  if (upgrade.evicts() && !upgrade.budgets_unknown.empty()) {
    json["budgetsUnknown"] = upgrade.budgets_unknown;
  }
  return json;
}

Json ListOf(const std::vector<Json>& items, const Plan& plan) {
  Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}};
  for (const DriverUpgrade& upgrade : plan.upgrades) {
    list["driverUpgrades"].push_back(UpgradeJson(upgrade));
  }
  return list;
}

}  // namespace

std::string Summary(const Plan& plan) {
  std::string text = fmt::format("Plan: {} to create, {} to change, {} to delete; {} as wanted",
                                 plan.Count(Action::kCreate), plan.Count(Action::kChange),
                                 plan.Count(Action::kDelete), plan.Count(Action::kNone));
  if (const auto unknown = plan.Count(Action::kUnknown); unknown > 0) {
    text += fmt::format("; {} cannot be compared", unknown);
  }
  text += ".\n";
  for (const DriverUpgrade& upgrade : plan.upgrades) {
    if (const std::string pods = PodsText(upgrade); !pods.empty()) {
      text += fmt::format("{}: {}.\n", upgrade.whose, pods);
    }
  }
  return text;
}

std::string ToYaml(const Plan& plan, bool uninstall) {
  std::string text;
  std::vector<Json> documents = Documents(plan, uninstall);
  // A List without items is nothing to whoever applies the stream.
  if (!plan.upgrades.empty()) documents.push_back(ListOf({}, plan));
  for (const Json& document : documents) {
    if (!text.empty()) text += "---\n";
    text += codec::ToYamlText(document);
  }
  return text;
}

std::string ToJson(const Plan& plan, bool uninstall) {
  return codec::ToPrettyJsonText(ListOf(Documents(plan, uninstall), plan)) + "\n";
}

std::string ToTable(const Plan& plan) {
  constexpr std::size_t kColumns = 5;
  std::vector<std::array<std::string, kColumns>> rows{
      {"ACTION", "KIND", "NAME", "OPERAND", "REASON"}};
  for (const Item& item : plan.items) {
    rows.push_back({std::string(ToString(item.action)), item.kind(), NameOf(item),
                    item.operand.empty() ? "-" : item.operand, item.reason});
  }
  std::array<std::size_t, kColumns> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text + "\n" + Summary(plan);
}

std::string ToDiff(const Plan& plan) {
  std::string text;
  std::vector<const Item*> nodes;
  const auto tell_nodes = [&] {
    text += NodeGroups(nodes);
    nodes.clear();
  };
  for (const Item& item : plan.items) {
    if (item.action == Action::kNone) continue;
    if (item.kind() == "Node") {
      nodes.push_back(&item);
      continue;
    }
    tell_nodes();
    text += fmt::format("{} {} {} {}{}\n{}", SignOf(item.action), ToString(item.action),
                        item.kind(), NameOf(item), Because(item), FieldLines(item));
  }
  tell_nodes();
  for (const DriverUpgrade& upgrade : plan.upgrades) text += PodLines(upgrade);
  if (!text.empty()) text += "\n";
  return text + Summary(plan);
}

}  // namespace pitcrew::plan
