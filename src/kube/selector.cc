#include "kube/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace pitcrew::kube {

using codec::Json;

// Grammar: requirement { "," requirement }; requirement = "!" key | key [operator value(s)].
class SelectorParser {
 public:
  explicit SelectorParser(std::string_view text) : text_(text) {}

  base::Result<LabelSelector> Parse() {
    LabelSelector selector;
    SkipSpace();
    while (at_ < text_.size()) {
      TRY_ASSIGN(auto requirement, ParseRequirement());
      selector.requirements_.push_back(std::move(requirement));
      if (at_ == text_.size()) break;
      if (!Accept(",")) return base::Fail(Expected("\",\""));
      if (at_ == text_.size()) return base::Fail(Expected("a key"));
    }
    return selector;
  }

 private:
  using Requirement = LabelSelector::Requirement;
  using Operator = LabelSelector::Operator;

  base::Result<Requirement> ParseRequirement() {
    const bool negated = Accept("!");
    TRY_ASSIGN(std::string key, Word("a key"));
    if (negated) return Requirement{std::move(key), Operator::kDoesNotExist, {}};
    if (Accept("!=")) return Single(std::move(key), Operator::kNotEquals);
    if (Accept("==") || Accept("=")) return Single(std::move(key), Operator::kEquals);
    if (at_ == text_.size() || text_[at_] == ',') {
      return Requirement{std::move(key), Operator::kExists, {}};
    }
    TRY_ASSIGN(const std::string op, Word("an operator"));
    if (op != "in" && op != "notin") return base::Fail(Expected("\"in\" or \"notin\""));
    TRY_ASSIGN(auto values, ParseValues());
    return Requirement{std::move(key), op == "in" ? Operator::kIn : Operator::kNotIn,
                       std::move(values)};
  }

  base::Result<Requirement> Single(std::string key, Operator op) {
    std::string value;
    if (at_ < text_.size() && text_[at_] != ',') {
      TRY_ASSIGN(value, Word("a value"));
    }
    return Requirement{std::move(key), op, {std::move(value)}};
  }

  base::Result<std::vector<std::string>> ParseValues() {
    if (!Accept("(")) return base::Fail(Expected("\"(\""));
    std::vector<std::string> values;
    for (;;) {
      std::string value;
      if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')') {
        TRY_ASSIGN(value, Word("a value"));
      }
      values.push_back(std::move(value));
      if (Accept(")")) return values;
      if (!Accept(",")) return base::Fail(Expected("\",\" or \")\""));
    }
  }

  base::Result<std::string> Word(std::string_view what) {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
            std::string_view("-_./").find(text_[at_]) != std::string_view::npos)) {
      ++at_;
    }
    if (at_ == begin) return base::Fail(Expected(what));
    std::string word(text_.substr(begin, at_ - begin));
    SkipSpace();
    return word;
  }

  bool Accept(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    SkipSpace();
    return true;
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  [[nodiscard]] base::Error Expected(std::string_view what) const {
    return base::Invalid(
        "InvalidSelector",
        fmt::format("label selector \"{}\": {} expected at position {}", text_, what, at_ + 1));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Labels LabelsOf(const Json& object) {
  Labels labels;
  const Json* found = codec::Find(object, {"metadata", "labels"});
  if (found == nullptr || !found->is_object()) return labels;
  for (const auto& [key, value] : found->items()) {
    if (value.is_string()) labels.emplace(key, value.get<std::string>());
  }
  return labels;
}

base::Result<LabelSelector> LabelSelector::Parse(std::string_view text) {
  return SelectorParser(text).Parse();
}

base::Result<LabelSelector> LabelSelector::FromJson(const Json& selector) {
  LabelSelector result;
  if (selector.is_null()) return result;
  if (!selector.is_object()) {
    return base::Fail(base::Invalid("InvalidSelector", "a label selector must be an object"));
  }
  if (const Json* labels = codec::Find(selector, {"matchLabels"});
      labels != nullptr && labels->is_object()) {
    for (const auto& [key, value] : labels->items()) {
      if (!value.is_string()) {
        return base::Fail(
            base::Invalid("InvalidSelector", fmt::format("matchLabels.{} must be text", key)));
      }
      result.requirements_.push_back({key, Operator::kEquals, {value.get<std::string>()}});
    }
  }
  const Json* expressions = codec::Find(selector, {"matchExpressions"});
  if (expressions == nullptr || !expressions->is_array()) return result;
  for (const Json& expression : *expressions) {
    static const std::map<std::string, Operator, std::less<>> kOperators{
        {"In", Operator::kIn},
        {"NotIn", Operator::kNotIn},
        {"Exists", Operator::kExists},
        {"DoesNotExist", Operator::kDoesNotExist}};
    const auto op = kOperators.find(codec::FindString(expression, {"operator"}));
    Requirement requirement{.key = codec::FindString(expression, {"key"}), .op = {}, .values = {}};
    if (op == kOperators.end() || requirement.key.empty()) {
      return base::Fail(base::Invalid(
          "InvalidSelector",
          fmt::format("matchExpressions {}: needs a key and an operator of In, NotIn, Exists, "
                      "DoesNotExist",
                      codec::ToJsonText(expression))));
    }
    requirement.op = op->second;
    if (const Json* values = codec::Find(expression, {"values"});
        values != nullptr && values->is_array()) {
      for (const Json& value : *values) {
        if (value.is_string()) requirement.values.push_back(value.get<std::string>());
      }
    }
    const bool needs_values = requirement.op == Operator::kIn || requirement.op == Operator::kNotIn;
    if (needs_values == requirement.values.empty()) {
      return base::Fail(base::Invalid(
          "InvalidSelector", fmt::format("matchExpressions {}: {}", codec::ToJsonText(expression),
                                         needs_values ? "values are missing" : "takes no values")));
    }
    result.requirements_.push_back(std::move(requirement));
  }
  return result;
}

LabelSelector LabelSelector::FromLabels(const Labels& labels) {
  LabelSelector result;
  for (const auto& [key, value] : labels) {
    result.requirements_.push_back({key, Operator::kEquals, {value}});
  }
  return result;
}

bool LabelSelector::Matches(const Labels& labels) const {
  return std::all_of(requirements_.begin(), requirements_.end(), [&](const Requirement& need) {
    const auto label = labels.find(need.key);
    const bool exists = label != labels.end();
    const bool among = exists && std::find(need.values.begin(), need.values.end(), label->second) !=
                                     need.values.end();
    switch (need.op) {
      case Operator::kEquals:
      case Operator::kIn:
        return among;
      case Operator::kNotEquals:
      case Operator::kNotIn:
        return !among;
      case Operator::kExists:
        return exists;
      case Operator::kDoesNotExist:
        return !exists;
    }
    return false;
  });
}

std::string LabelSelector::ToString() const {
  std::vector<std::string> parts;
  for (const Requirement& need : requirements_) {
    switch (need.op) {
      case Operator::kEquals:
        parts.push_back(fmt::format("{}={}", need.key, need.values.front()));
        break;
      case Operator::kNotEquals:
        parts.push_back(fmt::format("{}!={}", need.key, need.values.front()));
        break;
      case Operator::kIn:
        parts.push_back(fmt::format("{} in ({})", need.key, base::Join(need.values, ",")));
        break;
      case Operator::kNotIn:
        parts.push_back(fmt::format("{} notin ({})", need.key, base::Join(need.values, ",")));
        break;
      case Operator::kExists:
        parts.push_back(need.key);
        break;
      case Operator::kDoesNotExist:
        parts.push_back("!" + need.key);
        break;
    }
  }
  return base::Join(parts, ",");
}

}  // namespace pitcrew::kube
