#include "shim/requirements.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>

#include "base/strings.h"

namespace pitcrew::shim {
namespace {

using Version = std::vector<std::uint64_t>;

std::optional<Version> ReadVersion(std::string_view text) {
  Version version;
  for (const auto& part : base::Split(text, '.')) {
    const auto number = base::ParseUnsigned(part);
    if (!number) return std::nullopt;
    version.push_back(*number);
  }
  return version;
}

// 9 and 9.0 are the same.
std::strong_ordering Compare(Version a, Version b) {
  const auto length = std::max(a.size(), b.size());
  a.resize(length);
  b.resize(length);
  return a <=> b;
}

struct Condition {
  std::string property;
  std::string relation;  // one of = != < <= > >=
  std::string value;
};

base::Result<Condition> ParseCondition(std::string_view text) {
  constexpr std::string_view kSigns = "=!<>";
  const auto begin = text.find_first_of(kSigns);
  const auto end = begin == std::string_view::npos ? begin : text.find_first_not_of(kSigns, begin);
  Condition condition;
  if (end != std::string_view::npos) {
    condition = {std::string(text.substr(0, begin)), std::string(text.substr(begin, end - begin)),
                 std::string(text.substr(end))};
  }
  static constexpr std::string_view kRelations[] = {"=", "!=", "<", "<=", ">", ">="};
  if (std::ranges::find(kRelations, condition.relation) != std::end(kRelations)) return condition;
  return base::Fail(base::Invalid(
      "InvalidRequirement",
      fmt::format("the image's requirement \"{}\" is none: it takes a property, one of = != < <= > "
                  ">=, and a value",
                  text)));
}

template <class T>
bool Holds(const T& ordering, std::string_view relation) {
  if (relation == "=") return ordering == 0;
  if (relation == "!=") return ordering != 0;
  if (relation == "<") return ordering < 0;
  if (relation == "<=") return ordering <= 0;
  return relation == ">" ? ordering > 0 : ordering >= 0;
}

base::Result<bool> IsConditionMet(std::string_view text, const Properties& properties) {
  TRY_ASSIGN(const Condition condition, ParseCondition(text));
  static constexpr std::string_view kVersions[] = {"cuda", "driver", "arch"};
  const bool is_version = std::ranges::find(kVersions, condition.property) != std::end(kVersions);
  const auto wanted = ReadVersion(condition.value);
  if (is_version && !wanted) {
    return base::Fail(
        base::Invalid("InvalidRequirement",
                      fmt::format("the image's requirement \"{}\" names no version", text)));
  }
  const auto known = properties.find(condition.property);
  if (known == properties.end()) return true;
  if (!is_version) return Holds(known->second <=> condition.value, condition.relation);
  const auto actual = ReadVersion(known->second);
  return !actual || Holds(Compare(*actual, *wanted), condition.relation);
}

base::Result<bool> IsAlternativeMet(std::string_view alternative, const Properties& properties) {
  bool met = true;
  // Every condition is read: a faulty one must not depend on the node to be seen.
  for (const auto& condition : base::SplitTrimmed(alternative, ',')) {
    TRY_ASSIGN(const bool holds, IsConditionMet(condition, properties));
    met = met && holds;
  }
  return met;
}

}  // namespace

base::Result<std::string> MajorMinor(std::string_view version) {
  std::string_view text = version;
  if (text.starts_with('v')) text.remove_prefix(1);
  const auto parts = ReadVersion(text);
  constexpr std::size_t kMost = 3;
  if (!parts || parts->size() > kMost) {
    return base::Fail(base::Invalid(
        "InvalidCudaVersion", fmt::format("\"{}\" is no version of CUDA, as 12.4.1", version)));
  }
  return fmt::format("{}.{}", parts->front(), parts->size() > 1 ? (*parts)[1] : 0);
}

base::Result<std::vector<std::string>> FindRequirements(const oci::Spec& spec, bool disabled) {
  const auto off = base::ParseGoBool(spec.FindEnv("NVIDIA_DISABLE_REQUIRE").value_or("false"));
  if (disabled || (off && *off)) return std::vector<std::string>();
  std::vector<std::string> requirements;
  for (const auto& entry : spec.env()) {
    const auto sign = entry.find('=');
    const std::string_view name = std::string_view(entry).substr(0, sign);
    if (sign == std::string::npos || !name.starts_with("NVIDIA_REQUIRE_") ||
        name.starts_with("NVIDIA_REQUIRE_JETPACK")) {
      continue;
    }
    requirements.push_back(entry.substr(sign + 1));
  }
  const auto cuda = spec.FindEnv("CUDA_VERSION").value_or("");
  if (!cuda.empty() && spec.FindEnv("NVIDIA_REQUIRE_CUDA").value_or("").empty()) {
    TRY_ASSIGN(const auto version, MajorMinor(cuda));
    requirements.push_back("cuda>=" + version);
  }
  return requirements;
}

base::Result<bool> IsMet(std::string_view requirement, const Properties& properties) {
  const auto alternatives = base::SplitTrimmed(requirement, ' ');
  bool met = alternatives.empty();
  for (const auto& alternative : alternatives) {
    TRY_ASSIGN(const bool holds, IsAlternativeMet(alternative, properties));
    met = met || holds;
  }
  return met;
}

}  // namespace pitcrew::shim
