#include "plan/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "base/strings.h"
#include "codec/yaml.h"

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

}  // namespace

std::string Summary(const Plan& plan) {
  std::string text = fmt::format("Plan: {} to create, {} to change, {} to delete; {} as wanted",
                                 plan.Count(Action::kCreate), plan.Count(Action::kChange),
                                 plan.Count(Action::kDelete), plan.Count(Action::kNone));
  if (const auto unknown = plan.Count(Action::kUnknown); unknown > 0) {
    text += fmt::format("; {} cannot be compared", unknown);
  }
  return text + ".\n";
}

std::string ToYaml(const Plan& plan, bool uninstall) {
  std::string text;
  for (const Json& document : Documents(plan, uninstall)) {
    if (!text.empty()) text += "---\n";
    text += codec::ToYamlText(document);
  }
  return text;
}

std::string ToJson(const Plan& plan, bool uninstall) {
  return codec::ToPrettyJsonText(
             {{"apiVersion", "v1"}, {"kind", "List"}, {"items", Documents(plan, uninstall)}}) +
         "\n";
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
  if (!text.empty()) text += "\n";
  return text + Summary(plan);
}

}  // namespace pitcrew::plan
