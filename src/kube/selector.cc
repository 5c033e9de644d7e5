#include "kube/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/strings.h"

namespace pitcrew::kube {
namespace {

base::Error InvalidSelector(std::string_view text, std::string_view why) {
  return base::Invalid("InvalidSelector",
                       fmt::format("\"{}\" is no label selector: {}", text, why));
}

bool IsWord(std::string_view text, std::string_view also) {
  return std::ranges::all_of(text, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           also.find(c) != std::string_view::npos;
  });
}
bool IsKey(std::string_view text) { return !text.empty() && IsWord(text, "-_./"); }
bool IsValue(std::string_view text) { return IsWord(text, "-_."); }

// At the commas that stand in no parentheses.
std::vector<std::string_view> Requirements(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool in_values = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') in_values = true;
    if (text[i] == ')') in_values = false;
    if (text[i] != ',' || in_values) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace

std::string SelectorOf(const Labels& labels) {
  std::vector<std::string> parts;
  parts.reserve(labels.size());
  for (const auto& [key, value] : labels) parts.push_back(key + "=" + value);
  return base::Join(parts, ",");
}

base::Result<LabelSelector::Requirement> LabelSelector::ParseRequirement(std::string_view text) {
  Requirement requirement;
  text = base::Trim(text);
  const bool negated = text.starts_with('!');
  if (negated) text = base::Trim(text.substr(1));
  const auto end = text.find_first_of(" \t=!<>(");
  requirement.key = text.substr(0, end);
  if (!IsKey(requirement.key))
    return base::Fail(InvalidSelector(text, "a label's name is missing"));
  std::string_view rest = end == std::string_view::npos ? "" : base::Trim(text.substr(end));
  if (negated || rest.empty()) {
    requirement.what = negated ? Operator::kMissing : Operator::kExists;
    if (!rest.empty())
      return base::Fail(InvalidSelector(text, "there is something behind the name"));
    return requirement;
  }
  constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::kIn}, {"=", Operator::kIn},        {"!=", Operator::kNotIn},
      {"in", Operator::kIn}, {"notin", Operator::kNotIn}, {">", Operator::kGreater},
      {"<", Operator::kLess}};
  const auto* found = std::ranges::find_if(
      kOperators, [&](const auto& one) { return rest.starts_with(one.first); });
  if (found == std::end(kOperators)) {
    return base::Fail(InvalidSelector(text, "no operator is known there"));
  }
  requirement.what = found->second;
  rest = base::Trim(rest.substr(found->first.size()));
  if (found->first == "in" || found->first == "notin") {
    if (!rest.starts_with('(') || !rest.ends_with(')')) {
      return base::Fail(InvalidSelector(text, "values stand in parentheses"));
    }
    rest = rest.substr(1, rest.size() - 2);
    for (const auto& piece : base::Split(rest, ',')) {
      requirement.values.emplace_back(base::Trim(piece));
    }
  } else {
    requirement.values.emplace_back(rest);
  }
  if (!std::ranges::all_of(requirement.values, IsValue)) {
    return base::Fail(InvalidSelector(text, "a value can be none"));
  }
  if (requirement.what == Operator::kGreater || requirement.what == Operator::kLess) {
    const auto bound = base::ParseInteger(rest);
    if (!bound) return base::Fail(InvalidSelector(text, "the bound is no whole number"));
    requirement.bound = *bound;
  }
  return requirement;
}

base::Result<LabelSelector> LabelSelector::Parse(std::string_view text) {
  LabelSelector selector;
  if (base::Trim(text).empty()) return selector;
  for (const std::string_view part : Requirements(text)) {
    TRY_ASSIGN(auto requirement, ParseRequirement(part));
    selector.requirements_.push_back(std::move(requirement));
  }
  return selector;
}

bool LabelSelector::IsMet(const Requirement& requirement, const codec::Json* value) {
  const bool has = value != nullptr && value->is_string();
  const std::string text = has ? value->get<std::string>() : "";
  const bool listed =
      has && std::ranges::find(requirement.values, text) != requirement.values.end();
  const auto number = base::ParseInteger(text);
  switch (requirement.what) {
    case Operator::kIn:
      return listed;
    case Operator::kNotIn:
      return !listed;
    case Operator::kExists:
      return has;
    case Operator::kMissing:
      return !has;
    case Operator::kGreater:
      return number && *number > requirement.bound;
    case Operator::kLess:
      return number && *number < requirement.bound;
  }
  return false;
}

bool LabelSelector::Selects(const codec::Json& object) const {
  return std::ranges::all_of(requirements_, [&](const Requirement& requirement) {
    return IsMet(requirement, codec::Find(object, {"metadata", "labels", requirement.key}));
  });
}

}  // namespace pitcrew::kube
