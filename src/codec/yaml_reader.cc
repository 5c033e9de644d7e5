#include "codec/yaml_reader.h"

#include <fmt/format.h>
#include <yaml.h>

#include <optional>
#include <set>

#include "codec/yaml_scalar.h"

namespace pitcrew::codec {
namespace {

// Deeper than any object of Kubernetes; a text must not be able to use up the stack.
constexpr int kDeepest = 200;
// Aliases may multiply what a text says: more values than this are an attack.
constexpr std::size_t kMostAliasedValues = 1'000'000;
constexpr std::string_view kMergeTag = "tag:yaml.org,2002:merge";

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
  // Quoted, or a block: not a word that could mean a number.
  [[nodiscard]] bool is_text() const {
    const auto& scalar = event_.data.scalar;
    return scalar.tag == nullptr && scalar.plain_implicit == 0;
  }
  [[nodiscard]] std::string tag() const { return Word(event_.data.scalar.tag); }
  // "<<", which takes the members of other mappings over.
  [[nodiscard]] bool is_merge() const {
    return type() == YAML_SCALAR_EVENT && text() == "<<" &&
           (event_.data.scalar.plain_implicit != 0 || tag() == kMergeTag);
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
    const std::string anchor = event.anchor();
    if (!anchor.empty()) anchors_.insert_or_assign(anchor, std::nullopt);
    base::Result<Json> value = Json();
    if (event.type() == YAML_SCALAR_EVENT) {
      TRY_ASSIGN(Json resolved, Scalar(event));
      value = Placed(event, YamlValue(std::move(resolved)));
    } else {
      value = event.type() == YAML_SEQUENCE_START_EVENT ? Sequence(pointer, depth)
                                                        : Mapping(pointer, depth);
    }
    if (value && !anchor.empty()) anchors_.insert_or_assign(anchor, *value);
    return value;
  }

  // With floating numbers as they are.
  base::Result<Json> Scalar(const Event& event) {
    if (event.is_text()) return Json(event.text());
    return Placed(event, ResolveYamlScalar(event.text(), event.tag()));
  }

  // The error says where.
  template <class Value>
  base::Result<Value> Placed(const Event& event, base::Result<Value> value) {
    if (!value) return base::Fail(Wrong(event.start(), value.error().message));
    return value;
  }

  base::Result<Json> Aliased(const Event& event) {
    const auto found = anchors_.find(event.anchor());
    if (found == anchors_.end()) {
      return base::Fail(
          Wrong(event.start(), fmt::format("there is no anchor \"{}\"", event.anchor())));
    }
    if (!found->second) {
      return base::Fail(
          Wrong(event.start(), fmt::format("anchor \"{}\" contains itself", event.anchor())));
    }
    aliased_values_ += CountValues(*found->second);
    if (aliased_values_ > kMostAliasedValues) {
      return base::Fail(Wrong(event.start(), "aliases make too many values"));
    }
    return *found->second;
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
    std::set<std::string> written;  // here, not merged from elsewhere
    while (true) {
      Event key;
      TRY(Next(key));
      if (key.type() == YAML_MAPPING_END_EVENT) return object;
      if (key.is_merge()) {
        TRY(Merge(object, pointer, depth));
        continue;
      }
      TRY_ASSIGN(std::string name, Key(key));
      if (!written.insert(name).second) {
        return base::Fail(Wrong(key.start(), fmt::format("key \"{}\" stands here twice", name)));
      }
      Event event;
      TRY(Next(event));
      TRY_ASSIGN(Json member, Value(event, Below(pointer, name), depth + 1));
      object[std::move(name)] = std::move(member);
    }
  }

  base::Result<std::string> Key(const Event& event) {
    if (event.type() != YAML_SCALAR_EVENT && event.type() != YAML_ALIAS_EVENT) {
      return base::Fail(Wrong(event.start(), "a key must be plain text"));
    }
    Json resolved;
    if (event.type() == YAML_ALIAS_EVENT) {
      TRY_ASSIGN(resolved, Aliased(event));
    } else {
      TRY_ASSIGN(resolved, Scalar(event));
      if (const std::string anchor = event.anchor(); !anchor.empty()) {
        TRY_ASSIGN(Json value, Placed(event, YamlValue(resolved)));
        anchors_.insert_or_assign(anchor, std::move(value));
      }
    }
    return Placed(event, YamlKey(resolved));
  }

  // The value of "<<": a mapping, or several, of which the first one wins. Members that come later
  // replace earlier ones, merged or not, as with the Go library.
  base::Status Merge(Json& object, const std::string& pointer, int depth) {
    Event event;
    TRY(Next(event));
    TRY_ASSIGN(Json source, Value(event, Below(pointer, "<<"), depth + 1));
    const bool list = event.type() == YAML_SEQUENCE_START_EVENT;
    if (!list && !source.is_object()) return WrongMerge(event);
    if (!list) source = Json::array({std::move(source)});
    for (auto item = source.rbegin(); item != source.rend(); ++item) {
      if (!item->is_object()) return WrongMerge(event);
      object.update(*item);
    }
    return {};
  }

  [[nodiscard]] std::unexpected<base::Error> WrongMerge(const Event& event) const {
    return base::Fail(Wrong(event.start(), "\"<<\" needs a mapping or a list of mappings"));
  }

  [[nodiscard]] std::string Below(const std::string& pointer, std::string_view name) const {
    return marks_ == nullptr ? std::string() : fmt::format("{}/{}", pointer, name);
  }

  yaml_parser_t parser_{};
  std::string source_;
  YamlMarks* marks_;
  // Nothing while the value is being read.
  std::map<std::string, std::optional<Json>, std::less<>> anchors_;
  std::size_t aliased_values_ = 0;
};

}  // namespace

base::Result<std::vector<Json>> ReadYamlDocuments(std::string_view text, std::string_view source,
                                                  YamlMarks* marks) {
  return Reader(text, source, marks).Documents();
}

}  // namespace pitcrew::codec
