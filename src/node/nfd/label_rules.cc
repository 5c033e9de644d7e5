#include "node/nfd/label_rules.h"

#include <fmt/format.h>

#include <cctype>
#include <regex>

namespace pitcrew::node::nfd {
namespace {

constexpr std::size_t kLongestName = 63;
constexpr std::size_t kLongestPrefix = 253;
constexpr std::string_view kProfileNamespace = "profile.node.kubernetes.io";

bool IsAlphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Alphanumeric at both ends, and "-", "_", "." between; not empty.
bool IsName(std::string_view text) {
  if (text.empty() || !IsAlphanumeric(text.front()) || !IsAlphanumeric(text.back())) return false;
  for (const char c : text) {
    if (!IsAlphanumeric(c) && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

bool IsDnsLabel(std::string_view text) {
  if (text.empty()) return false;
  const auto good = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (!good(text.front()) || !good(text.back())) return false;
  for (const char c : text) {
    if (!good(c) && c != '-') return false;
  }
  return true;
}

bool IsDnsSubdomain(std::string_view text) {
  if (text.empty() || text.size() > kLongestPrefix) return false;
  while (true) {
    const auto dot = text.find('.');
    if (!IsDnsLabel(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

base::Status Refuse(std::string_view what, std::string_view text, std::string_view why) {
  return base::Fail(base::Invalid("InvalidLabel", fmt::format("{} \"{}\" {}", what, text, why)));
}

bool IsOrBelow(std::string_view name, std::string_view parent) {
  return name == parent || (name.ends_with(parent) && name.size() > parent.size() &&
                            name[name.size() - parent.size() - 1] == '.');
}

}  // namespace

base::Status CheckQualifiedName(std::string_view name) {
  std::string_view base_name = name;
  if (const auto slash = name.find('/'); slash != std::string_view::npos) {
    base_name = name.substr(slash + 1);
    if (!IsDnsSubdomain(name.substr(0, slash))) {
      return Refuse("name", name, "has a prefix that is not a DNS subdomain");
    }
  }
  if (base_name.size() > kLongestName) return Refuse("name", name, "is longer than 63 characters");
  if (!IsName(base_name)) {
    return Refuse("name", name,
                  "must begin and end with a letter or digit and contain only letters, digits, "
                  "'-', '_' and '.'");
  }
  return {};
}

base::Status CheckLabelValue(std::string_view value) {
  if (value.empty()) return {};
  if (value.size() > kLongestName) return Refuse("value", value, "is longer than 63 characters");
  if (!IsName(value)) {
    return Refuse("value", value,
                  "must begin and end with a letter or digit and contain only letters, digits, "
                  "'-', '_' and '.'");
  }
  return {};
}

std::string_view NamespaceOf(std::string_view name) {
  const auto slash = name.find('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

std::string_view BaseNameOf(std::string_view name) {
  const auto slash = name.find('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

std::string WithDefaultNamespace(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return std::string(name);
  return fmt::format("{}/{}", kFeatureNamespace, name);
}

bool IsReservedNamespace(std::string_view label_namespace) {
  if (!IsOrBelow(label_namespace, "kubernetes.io")) return false;
  return !IsOrBelow(label_namespace, kFeatureNamespace) &&
         !IsOrBelow(label_namespace, kProfileNamespace);
}

struct LabelWhiteList::Expression {
  std::regex regex;
};

base::Result<LabelWhiteList> LabelWhiteList::Compile(std::string_view expression) {
  LabelWhiteList list;
  if (expression.empty()) return list;
  try {
    list.expression_ = std::make_shared<const Expression>(
        Expression{std::regex(expression.begin(), expression.end(), std::regex::ECMAScript)});
  } catch (const std::regex_error& error) {
    return base::Fail(base::Invalid(
        "MalformedExpression",
        fmt::format("\"{}\" is not a regular expression: {}", expression, error.what())));
  }
  return list;
}

bool LabelWhiteList::Matches(std::string_view base_name) const {
  if (!expression_) return true;
  try {
    return std::regex_search(base_name.begin(), base_name.end(), expression_->regex);
  } catch (const std::regex_error&) {
    return false;  // the expression is too complex for this name
  }
}

}  // namespace pitcrew::node::nfd
