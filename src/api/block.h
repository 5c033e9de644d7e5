// Reads the members of a custom resource: each by its name and kind, with what is wrong about it
// collected as problems with the member's path.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/cluster_policy.h"
#include "codec/json.h"

namespace pitcrew::api {

// A block of the spec together with its path. Absent blocks read as empty; a value of the wrong
// kind is reported once and reads as absent. Borrows the value and the list of problems.
class Block {
 public:
  Block(const codec::Json* value, std::string path, std::vector<FieldProblem>& problems)
      : value_(value), path_(std::move(path)), problems_(&problems) {
    if (value_ != nullptr && value_->is_null()) value_ = nullptr;
    if (value_ != nullptr && !value_->is_object()) {
      Report("", "must be an object");
      value_ = nullptr;
    }
  }

  [[nodiscard]] bool present() const { return value_ != nullptr; }
  [[nodiscard]] const std::string& path() const { return path_; }
  Block Child(std::string_view name) const {
    return Block(Member(name), fmt::format("{}.{}", path_, name), *problems_);
  }

  [[nodiscard]] std::string String(std::string_view name, std::string fallback = "") const {
    const codec::Json* member = Member(name);
    if (member == nullptr) return fallback;
    if (member->is_string()) return member->get<std::string>();
    Report(name, "must be a string");
    return fallback;
  }
  [[nodiscard]] std::string Enumerated(std::string_view name, std::string fallback,
                                       std::initializer_list<std::string_view> allowed) const {
    if (Member(name) == nullptr) return fallback;
    std::string text = String(name, fallback);
    std::string choices;
    for (const auto choice : allowed) {
      if (text == choice) return text;
      choices += fmt::format("{}\"{}\"", choices.empty() ? "" : ", ", choice);
    }
    Report(name, fmt::format("is \"{}\", must be one of {}", text, choices));
    return fallback;
  }
  [[nodiscard]] std::optional<bool> Bool(std::string_view name) const {
    const codec::Json* member = Member(name);
    if (member == nullptr) return std::nullopt;
    if (member->is_boolean()) return member->get<bool>();
    Report(name, "must be true or false");
    return std::nullopt;
  }
  [[nodiscard]] bool Flag(std::string_view name, bool fallback = false) const {
    return Bool(name).value_or(fallback);
  }
  [[nodiscard]] std::int32_t Int32(std::string_view name, std::int32_t fallback = 0) const {
    const codec::Json* member = Member(name);
    if (member == nullptr) return fallback;
    if (member->is_number_integer()) {
      const auto number = member->get<std::int64_t>();
      if (number >= std::numeric_limits<std::int32_t>::min() &&
          number <= std::numeric_limits<std::int32_t>::max()) {
        return static_cast<std::int32_t>(number);
      }
    }
    Report(name, "must be a whole number of 32 bits");
    return fallback;
  }
  // A number that must not be negative.
  [[nodiscard]] std::int32_t Count(std::string_view name, std::int32_t fallback) const {
    const std::int32_t number = Int32(name, fallback);
    if (number >= 0) return number;
    Report(name, "must not be negative");
    return fallback;
  }
  // A number of things, or their share with %: "3", "25%".
  [[nodiscard]] std::string CountOrShare(std::string_view name, std::string fallback) const {
    const codec::Json* member = Member(name);
    if (member == nullptr) return fallback;
    if (member->is_number_integer() && *member >= 0) return member->dump();
    const std::string text = member->is_string() ? member->get<std::string>() : "";
    if (text.size() > 1 && text.size() < 8 && text.ends_with('%') &&
        text.find_first_not_of("0123456789") == text.size() - 1) {
      return text;
    }
    Report(name, "must be a whole number or a share like \"25%\"");
    return fallback;
  }
  [[nodiscard]] std::vector<std::string> Strings(std::string_view name) const {
    std::vector<std::string> texts;
    for (const codec::Json& item : Items(name)) {
      if (item.is_string()) {
        texts.push_back(item.get<std::string>());
      } else {
        Report(name, "must hold strings only");
        return {};
      }
    }
    return texts;
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> StringMap(
      std::string_view name) const {
    std::vector<std::pair<std::string, std::string>> pairs;
    const Block map = Child(name);
    if (!map.present()) return pairs;
    for (const auto& [key, value] : map.value_->items()) {
      if (value.is_string()) {
        pairs.emplace_back(key, value.get<std::string>());
      } else {
        map.Report(key, "must be a string");
      }
    }
    return pairs;
  }
  [[nodiscard]] std::vector<EnvVar> Env(std::string_view name) const {
    std::vector<EnvVar> variables;
    std::size_t index = 0;
    for (const codec::Json& item : Items(name)) {
      const Block entry(&item, fmt::format("{}.{}[{}]", path_, name, index++), *problems_);
      EnvVar variable{entry.String("name"), entry.String("value")};
      if (variable.name.empty()) {
        if (entry.present()) entry.Report("name", "must not be empty");
        continue;
      }
      variables.push_back(std::move(variable));
    }
    return variables;
  }
  [[nodiscard]] std::vector<codec::Json> Objects(std::string_view name) const {
    std::vector<codec::Json> objects;
    for (const codec::Json& item : Items(name)) {
      if (!item.is_object()) {
        Report(name, "must hold objects only");
        return {};
      }
      objects.push_back(item);
    }
    return objects;
  }
  [[nodiscard]] std::optional<codec::Json> Fragment(std::string_view name) const {
    const Block child = Child(name);
    if (!child.present()) return std::nullopt;
    return *child.value_;
  }

  // Each item of a list as a block, with its index in its path.
  [[nodiscard]] std::vector<Block> Blocks(std::string_view name) const {
    std::vector<Block> blocks;
    for (const codec::Json& item : Items(name)) {
      blocks.emplace_back(&item, fmt::format("{}.{}[{}]", path_, name, blocks.size()), *problems_);
    }
    return blocks;
  }
  // For what no schema has looked at.
  void RefuseOthers(std::initializer_list<std::string_view> names) const {
    if (value_ == nullptr) return;
    for (const auto& [key, value] : value_->items()) {
      if (std::ranges::find(names, std::string_view(key)) == names.end()) {
        Report(key, "is not known here");
      }
    }
  }

  // What is wrong with a member; with "" this block itself.
  void Report(std::string_view name, std::string message) const {
    problems_->push_back(
        {name.empty() ? path_ : fmt::format("{}.{}", path_, name), std::move(message)});
  }

 private:
  [[nodiscard]] const codec::Json* Member(std::string_view name) const {
    if (value_ == nullptr) return nullptr;
    const auto found = value_->find(name);
    return found == value_->end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] const codec::Json& Items(std::string_view name) const {
    static const codec::Json kNone = codec::Json::array();
    const codec::Json* member = Member(name);
    if (member == nullptr) return kNone;
    if (member->is_array()) return *member;
    Report(name, "must be a list");
    return kNone;
  }
  const codec::Json* value_;
  std::string path_;
  std::vector<FieldProblem>* problems_;
};

}  // namespace pitcrew::api
