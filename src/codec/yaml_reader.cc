#include "codec/yaml_reader.h"

#include <fmt/format.h>
#include <yaml.h>

#include <charconv>
#include <cmath>
#include <optional>

namespace pitcrew::codec {
namespace {

// Deeper than any object of Kubernetes; a text must not be able to use up the stack.
constexpr int kDeepest = 200;
// Aliases may multiply what a text says: more values than this are an attack.
constexpr std::size_t kMostAliasedValues = 1'000'000;

std::optional<Json> NumberFrom(const std::string& text) {
  const char* first = text.data();
  const char* last = first + text.size();
  if (text.starts_with('+')) ++first;
  if (text.starts_with("0x") || text.starts_with("0o")) {
    std::uint64_t value = 0;
    const auto [end, problem] = std::from_chars(first + 2, last, value, text[1] == 'x' ? 16 : 8);
    if (problem == std::errc() && end == last) return Json(value);
    return std::nullopt;
  }
  std::int64_t integer = 0;
  if (const auto [end, problem] = std::from_chars(first, last, integer);
      problem == std::errc() && end == last) {
    return Json(integer);
  }
  std::uint64_t big = 0;
  if (const auto [end, problem] = std::from_chars(first, last, big);
      problem == std::errc() && end == last) {
    return Json(big);
  }
  // from_chars also reads "inf" and "nan", which JSON has no form for.
  if (text.find_first_not_of("0123456789.eE+-") != std::string::npos ||
      text.find_first_of("0123456789") == std::string::npos) {
    return std::nullopt;
  }
  double real = 0;
  if (const auto [end, problem] = std::from_chars(first, last, real);
      problem == std::errc() && end == last && std::isfinite(real)) {
    return Json(real);
  }
  return std::nullopt;
}

std::size_t CountValues(const Json& value) {
  std::size_t count = 1;
  if (value.is_structured()) {
    for (const Json& item : value) count += CountValues(item);
  }
  return count;
}

class Event {
 public:
  Event() = default;
  ~Event() { ::yaml_event_delete(&event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  yaml_event_t* get() { return &event_; }
  [[nodiscard]] yaml_event_type_t type() const { return event_.type; }
  [[nodiscard]] const yaml_mark_t& start() const { return event_.start_mark; }
  // Of a scalar.
  [[nodiscard]] std::string text() const {
    const auto& scalar = event_.data.scalar;
    return {reinterpret_cast<const char*>(scalar.value), scalar.length};
  }
  [[nodiscard]] bool is_text() const {
    const auto& scalar = event_.data.scalar;
    if (scalar.tag != nullptr) return Word(scalar.tag) == YAML_STR_TAG || Word(scalar.tag) == "!";
    return scalar.style != YAML_PLAIN_SCALAR_STYLE;
  }
  // Name that an alias refers to, or that this value can be referred to by; "" when there is none.
  [[nodiscard]] std::string anchor() const {
    switch (event_.type) {
      case YAML_ALIAS_EVENT:
        return Word(event_.data.alias.anchor);
      case YAML_SCALAR_EVENT:
        return Word(event_.data.scalar.anchor);
      case YAML_SEQUENCE_START_EVENT:
        return Word(event_.data.sequence_start.anchor);
      case YAML_MAPPING_START_EVENT:
        return Word(event_.data.mapping_start.anchor);
      default:
        return "";
    }
  }

 private:
  static std::string Word(const yaml_char_t* word) {
    return word == nullptr ? "" : reinterpret_cast<const char*>(word);
  }
  yaml_event_t event_{};
};

class Reader {
 public:
  Reader(std::string_view text, std::string_view source, YamlMarks* marks)
      : source_(source), marks_(marks) {
    ::yaml_parser_initialize(&parser_);
    ::yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                   text.size());
  }
  ~Reader() { ::yaml_parser_delete(&parser_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  base::Result<std::vector<Json>> Documents() {
    std::vector<Json> documents;
    while (true) {
      Event event;
      TRY(Next(event));
      if (event.type() == YAML_STREAM_END_EVENT) return documents;
      if (event.type() != YAML_DOCUMENT_START_EVENT) continue;
      anchors_.clear();
      if (marks_ != nullptr) marks_->clear();
      Event root;
      TRY(Next(root));
      TRY_ASSIGN(Json value, Value(root, "", 0));
      if (!value.is_null()) documents.push_back(std::move(value));
    }
  }

 private:
  base::Status Next(Event& event) {
    if (::yaml_parser_parse(&parser_, event.get()) != 0) return {};
    std::string message = parser_.problem == nullptr ? "not valid YAML" : parser_.problem;
    if (parser_.context != nullptr) {
      message +=
          fmt::format(" {} that begins in line {}", parser_.context, parser_.context_mark.line + 1);
    }
    return base::Fail(Wrong(parser_.problem_mark, message));
  }

  [[nodiscard]] base::Error Wrong(const yaml_mark_t& mark, std::string_view what) const {
    return base::Invalid(
        "InvalidYaml", fmt::format("{}:{}:{}: {}", source_, mark.line + 1, mark.column + 1, what));
  }

  base::Result<Json> Value(const Event& event, const std::string& pointer, int depth) {
    if (depth > kDeepest) return base::Fail(Wrong(event.start(), "nested too deeply"));
    if (marks_ != nullptr) {
      const auto& mark = event.start();
      (*marks_)[pointer] = {static_cast<int>(mark.line) + 1, static_cast<int>(mark.column) + 1};
    }
    if (event.type() == YAML_ALIAS_EVENT) return Aliased(event);
    base::Result<Json> value = Json();
    if (event.type() == YAML_SCALAR_EVENT) {
      value = event.is_text() ? Json(event.text()) : PlainYamlScalar(event.text());
    } else {
      value = event.type() == YAML_SEQUENCE_START_EVENT ? Sequence(pointer, depth)
                                                        : Mapping(pointer, depth);
    }
    if (const std::string anchor = event.anchor(); value && !anchor.empty()) {
      anchors_.insert_or_assign(anchor, *value);
    }
    return value;
  }

  base::Result<Json> Aliased(const Event& event) {
    const auto found = anchors_.find(event.anchor());
    if (found == anchors_.end()) {
      return base::Fail(
          Wrong(event.start(), fmt::format("there is no anchor \"{}\"", event.anchor())));
    }
    aliased_values_ += CountValues(found->second);
    if (aliased_values_ > kMostAliasedValues) {
      return base::Fail(Wrong(event.start(), "aliases make too many values"));
    }
    return found->second;
  }

  base::Result<Json> Sequence(const std::string& pointer, int depth) {
    Json list = Json::array();
    while (true) {
      Event event;
      TRY(Next(event));
      if (event.type() == YAML_SEQUENCE_END_EVENT) return list;
      TRY_ASSIGN(Json item, Value(event, Below(pointer, std::to_string(list.size())), depth + 1));
      list.push_back(std::move(item));
    }
  }

  base::Result<Json> Mapping(const std::string& pointer, int depth) {
    Json object = Json::object();
    while (true) {
      Event key;
      TRY(Next(key));
      if (key.type() == YAML_MAPPING_END_EVENT) return object;
      if (key.type() != YAML_SCALAR_EVENT) {
        return base::Fail(Wrong(key.start(), "a key must be plain text"));
      }
      std::string name = key.text();
      if (object.contains(name)) {
        return base::Fail(Wrong(key.start(), fmt::format("key \"{}\" stands here twice", name)));
      }
      Event event;
      TRY(Next(event));
      TRY_ASSIGN(Json member, Value(event, Below(pointer, name), depth + 1));
      object.emplace(std::move(name), std::move(member));
    }
  }

  [[nodiscard]] std::string Below(const std::string& pointer, std::string_view name) const {
    return marks_ == nullptr ? std::string() : fmt::format("{}/{}", pointer, name);
  }

  yaml_parser_t parser_{};
  std::string source_;
  YamlMarks* marks_;
  std::map<std::string, Json, std::less<>> anchors_;
  std::size_t aliased_values_ = 0;
};

}  // namespace

Json PlainYamlScalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return {};
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (auto number = NumberFrom(text)) return *std::move(number);
  return text;
}

base::Result<std::vector<Json>> ReadYamlDocuments(std::string_view text, std::string_view source,
                                                  YamlMarks* marks) {
  return Reader(text, source, marks).Documents();
}

}  // namespace pitcrew::codec
