#include "simulation/description/mapping.h"

#include <algorithm>
#include <charconv>

namespace pitcrew::simulation {
namespace {

std::string Listed(std::span<const std::string_view> words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

std::string Shown(const YAML::Node& node) {
  if (node.IsScalar()) return "\"" + node.Scalar() + "\"";
  if (node.IsSequence()) return "a list";
  if (node.IsMap()) return "a mapping";
  return "nothing";
}

}  // namespace

void Source::Fail(const YAML::Mark& mark, const std::string& what) {
  if (error) return;
  std::string place = name;
  if (!mark.is_null()) {
    place += ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
  }
  error = base::Invalid("MalformedDescription", place + ": " + what);
}

std::optional<std::uint64_t> ParseNumber(const YAML::Node& node) {
  if (!node.IsScalar() || node.Scalar().empty()) return std::nullopt;
  std::string_view text = node.Scalar();
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

YAML::Node ParseDocument(Source& source, const std::string& text) {
  try {
    YAML::Node node = YAML::Load(text);
    return node;
  } catch (const YAML::ParserException& e) {
    source.Fail(e.mark, "this is no YAML: " + e.msg);
  } catch (const YAML::Exception& e) {
    source.Fail(e.mark, e.msg);
  }
  return {};
}

Mapping::Mapping(Source& source, YAML::Node node, std::string what)
    : source_(&source), node_(std::move(node)), what_(std::move(what)) {
  if (node_.IsMap() || node_.IsNull() || !node_.IsDefined()) return;
  source_->Fail(node_.Mark(),
                what_ + " must be a mapping of keys to values, here it is " + Shown(node_));
  node_ = YAML::Node();
}

bool Mapping::Has(std::string_view key) const {
  if (!node_.IsMap()) return false;
  return std::ranges::any_of(node_, [&](const auto& member) {
    return member.first.IsScalar() && member.first.Scalar() == key;
  });
}

YAML::Node Mapping::Value(std::string_view key, bool required) {
  asked_.emplace_back(key);
  if (node_.IsMap()) {
    for (const auto& member : node_) {
      if (member.first.IsScalar() && member.first.Scalar() == key) return member.second;
    }
  }
  if (required) {
    source_->Fail(node_.Mark(), what_ + " lacks the key \"" + std::string(key) + "\"");
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

std::uint64_t Mapping::Unsigned(std::string_view key, std::uint64_t low, std::uint64_t high,
                                std::optional<std::uint64_t> fallback) {
  const YAML::Node value = Value(key, !fallback);
  if (!value.IsDefined()) return fallback.value_or(low);
  const auto number = ParseNumber(value);
  if (number && *number >= low && *number <= high) return *number;
  source_->Fail(value.Mark(), "\"" + std::string(key) + "\" must be a whole number from " +
                                  std::to_string(low) + " to " + std::to_string(high) +
                                  ", here it is " + Shown(value));
  return fallback.value_or(low);
}

std::int64_t Mapping::Signed(std::string_view key, std::int64_t low, std::int64_t high,
                             std::optional<std::int64_t> fallback) {
  const YAML::Node value = Value(key, !fallback);
  if (!value.IsDefined()) return fallback.value_or(low);
  std::int64_t number = 0;
  if (value.IsScalar()) {
    const std::string& text = value.Scalar();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = !text.empty() && error == std::errc{} && end == text.data() + text.size();
    if (whole && number >= low && number <= high) return number;
  }
  source_->Fail(value.Mark(), "\"" + std::string(key) + "\" must be a whole number from " +
                                  std::to_string(low) + " to " + std::to_string(high) +
                                  ", here it is " + Shown(value));
  return fallback.value_or(low);
}

bool Mapping::Boolean(std::string_view key, std::optional<bool> fallback) {
  constexpr std::string_view kWords[] = {"false", "true"};
  return Word(key, kWords, fallback ? std::optional<std::size_t>(*fallback) : std::nullopt) == 1;
}

std::string Mapping::Text(std::string_view key, std::optional<std::string> fallback) {
  const YAML::Node value = Value(key, !fallback);
  if (!value.IsDefined()) return fallback.value_or("");
  if (value.IsScalar() && !value.Scalar().empty()) return value.Scalar();
  source_->Fail(value.Mark(),
                "\"" + std::string(key) + "\" must be text, here it is " + Shown(value));
  return fallback.value_or("");
}

std::size_t Mapping::Word(std::string_view key, std::span<const std::string_view> words,
                          std::optional<std::size_t> fallback) {
  const YAML::Node value = Value(key, !fallback);
  if (!value.IsDefined()) return fallback.value_or(0);
  if (value.IsScalar()) {
    const auto found = std::ranges::find(words, value.Scalar());
    if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  }
  source_->Fail(value.Mark(), "\"" + std::string(key) + "\" must be one of " + Listed(words) +
                                  ", here it is " + Shown(value));
  return fallback.value_or(0);
}

std::vector<std::uint64_t> Mapping::Unsigneds(std::string_view key, std::size_t fewest,
                                              std::size_t most, std::uint64_t high) {
  const YAML::Node value = Value(key, true);
  std::vector<std::uint64_t> numbers;
  if (!value.IsDefined()) return std::vector<std::uint64_t>(fewest, 0);
  bool good = value.IsSequence() && value.size() >= fewest && value.size() <= most;
  for (std::size_t i = 0; good && i < value.size(); ++i) {
    const auto number = ParseNumber(value[i]);
    good = number && *number <= high;
    if (good) numbers.push_back(*number);
  }
  if (good) return numbers;
  source_->Fail(value.Mark(), "\"" + std::string(key) + "\" must be a list of " +
                                  std::to_string(fewest) + " to " + std::to_string(most) +
                                  " whole numbers up to " + std::to_string(high));
  return std::vector<std::uint64_t>(fewest, 0);
}

std::vector<std::string> Mapping::Texts(std::string_view key) {
  const YAML::Node value = Value(key, true);
  std::vector<std::string> texts;
  bool good = value.IsDefined() && value.IsSequence();
  for (std::size_t i = 0; good && i < value.size(); ++i) {
    good = value[i].IsScalar() && !value[i].Scalar().empty();
    if (good) texts.push_back(value[i].Scalar());
  }
  if (!good) {
    source_->Fail(value.IsDefined() ? value.Mark() : node_.Mark(),
                  "\"" + std::string(key) + "\" must be a list of words");
  }
  return texts;
}

Mapping Mapping::Inner(std::string_view key, std::string what) {
  const YAML::Node value = Value(key, false);
  return {*source_, value.IsDefined() ? value : YAML::Node(), std::move(what)};
}

std::vector<Mapping> Mapping::Inners(std::string_view key, std::string what) {
  const YAML::Node value = Value(key, true);
  std::vector<Mapping> inners;
  if (!value.IsDefined()) return inners;
  if (!value.IsSequence() || value.size() == 0) {
    source_->Fail(value.Mark(), "\"" + std::string(key) + "\" must be a list, each item " + what +
                                    ", here it is " + Shown(value));
    return inners;
  }
  for (const auto& item : value) inners.emplace_back(*source_, item, what);
  return inners;
}

std::vector<Mapping::Member> Mapping::Members() {
  std::vector<Member> members;
  if (!node_.IsMap()) return members;
  for (const auto& member : node_) {
    if (!member.first.IsScalar()) {
      source_->Fail(member.first.Mark(), "a key of " + what_ + " must be text");
      continue;
    }
    asked_.push_back(member.first.Scalar());
    members.push_back({member.first.Scalar(), member.second});
  }
  return members;
}

void Mapping::RefuseOthers() {
  if (!node_.IsMap()) return;
  std::vector<std::string> seen;
  for (const auto& member : node_) {
    const std::string key = member.first.IsScalar() ? member.first.Scalar() : "";
    if (std::ranges::find(seen, key) != seen.end()) {
      source_->Fail(member.first.Mark(), what_ + " has the key \"" + key + "\" twice");
    }
    seen.push_back(key);
    if (std::ranges::find(asked_, key) != asked_.end()) continue;
    std::vector<std::string_view> known(asked_.begin(), asked_.end());
    source_->Fail(member.first.Mark(),
                  what_ + " has no key \"" + key + "\"; the keys are " + Listed(known));
  }
}

void Mapping::Fail(std::string_view key, const std::string& what) {
  const YAML::Node value = Value(key, false);
  source_->Fail(value.IsDefined() ? value.Mark() : node_.Mark(), what);
}

}  // namespace pitcrew::simulation
