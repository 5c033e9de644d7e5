#include "codec/yaml_block.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace pitcrew::codec {
namespace {

// Thrown inside this file only: the text needs the general reader.
struct NotSimple {};

constexpr int kDeepest = 100;  // nested values

std::string_view WithoutTrailingSpaces(std::string_view text) {
  const auto last = text.find_last_not_of(' ');
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

bool IsItem(std::string_view text) { return text == "-" || text.starts_with("- "); }

// Lines that mean something, one after the other. What stands behind "- " is looked at as a line of
// its own, indented to its column.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) { Next(); }

  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] std::size_t indent() const { return indent_; }
  // Without indentation and trailing spaces.
  [[nodiscard]] std::string_view text() const { return text_; }
  // Between this line and the one before there was nothing.
  [[nodiscard]] bool follows() const { return follows_; }

  // To the next line with content; comments and empty lines are passed over.
  void Next() {
    follows_ = true;
    while (!rest_.empty()) {
      const std::string_view line = Take();
      const auto begin = line.find_first_not_of(' ');
      if (begin == std::string_view::npos || line[begin] == '#') {
        follows_ = false;
        continue;
      }
      if (line.find_first_of("\t\r") != std::string_view::npos) throw NotSimple();
      indent_ = begin;
      text_ = WithoutTrailingSpaces(line.substr(begin));
      return;
    }
    done_ = true;
    indent_ = 0;
    text_ = {};
  }

  // Behind the dash of an item.
  void EnterItem() {
    const auto begin = text_.find_first_not_of(' ', 1);
    if (begin == std::string_view::npos || text_[begin] == '#') throw NotSimple();
    indent_ += begin;
    text_.remove_prefix(begin);
  }

  // The lines of a block scalar inside a value whose key is indented by `parent`; then the next
  // line with content. `strip`: without the last line's end.
  std::string TakeBlock(std::size_t parent, bool strip) {
    std::string block;
    std::size_t indent = 0;
    std::size_t empty = 0;  // lines that may turn out to be the end
    while (!rest_.empty()) {
      const std::string_view before = rest_;
      const std::string_view line = Take();
      if (line.find('\r') != std::string_view::npos) throw NotSimple();
      const auto begin = line.find_first_not_of(' ');
      if (begin == std::string_view::npos) {
        // Spaces beyond the block's indentation belong to it; that is for the general reader.
        if (line.size() > indent) throw NotSimple();
        ++empty;
        continue;
      }
      if (begin <= parent) {
        rest_ = before;
        break;
      }
      if (indent == 0) {
        if (empty > 0 || line[begin] == '\t') throw NotSimple();
        indent = begin;
      }
      if (begin < indent) throw NotSimple();
      block.append(empty, '\n');
      empty = 0;
      block.append(line.substr(indent));
      block += '\n';
    }
    if (strip && !block.empty()) block.pop_back();
    Next();
    return block;
  }

 private:
  std::string_view Take() {
    const auto end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    return line;
  }

  std::string_view rest_;
  std::string_view text_;
  std::size_t indent_ = 0;
  bool follows_ = true;
  bool done_ = false;
};

void AppendUtf8(std::string& text, std::uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0U | (code >> 6U));
    text += static_cast<char>(0x80U | (code & 0x3FU));
  } else {
    text += static_cast<char>(0xE0U | (code >> 12U));
    text += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
    text += static_cast<char>(0x80U | (code & 0x3FU));
  }
}

std::uint32_t HexDigits(std::string_view text) {
  std::uint32_t code = 0;
  for (const char letter : text) {
    const std::string_view kDigits = "0123456789abcdef";
    const auto digit =
        kDigits.find(static_cast<char>(letter >= 'A' && letter <= 'F' ? letter + 32 : letter));
    if (digit == std::string_view::npos) throw NotSimple();
    code = code * 16 + static_cast<std::uint32_t>(digit);
  }
  return code;
}

// Adds the character that an escape means; returns how many letters it has behind the backslash.
std::size_t AppendEscape(std::string& value, std::string_view text) {
  constexpr std::string_view kLetters = "\"\\/nrt";
  constexpr std::string_view kMeanings = "\"\\/\n\r\t";
  if (const auto place = kLetters.find(text.front()); place != std::string_view::npos) {
    value += kMeanings[place];
    return 1;
  }
  if (text.front() != 'u' || text.size() < 5) throw NotSimple();
  const std::uint32_t code = HexDigits(text.substr(1, 4));
  if (code == 0 || (code >= 0xD800 && code < 0xE000)) throw NotSimple();
  AppendUtf8(value, code);
  return 5;
}

// Reads a quoted text at the beginning of `text`; returns what stands behind it, nothing when the
// text goes on in the next line. `value` gets the content.
std::optional<std::string_view> ReadQuoted(std::string_view text, char quote, std::string& value) {
  std::size_t place = 0;
  while (place < text.size()) {
    const char letter = text[place];
    if (letter == quote) {
      const bool doubled = quote == '\'' && place + 1 < text.size() && text[place + 1] == '\'';
      if (!doubled) return text.substr(place + 1);
      value += '\'';
      place += 2;
    } else if (letter == '\\' && quote == '"') {
      if (place + 1 >= text.size()) throw NotSimple();  // the line's end is escaped
      place += 1 + AppendEscape(value, text.substr(place + 1));
    } else {
      value += letter;
      ++place;
    }
  }
  return std::nullopt;
}

// Characters that mean something at the beginning of a plain text.
bool MayBeginPlain(std::string_view text) {
  constexpr std::string_view kIndicators = "&*!|>%@`\"'[]{},?:#";
  if (text.empty() || kIndicators.find(text.front()) != std::string_view::npos) return false;
  return !IsItem(text) && !text.starts_with("--- ") && text != "---" && text != "...";
}

bool IsPlainInside(std::string_view text) {
  return text.find(": ") == std::string_view::npos && text.find(" #") == std::string_view::npos &&
         !text.ends_with(':');
}

class Reader {
 public:
  explicit Reader(std::string_view text) : lines_(text) {}

  std::vector<Json> ReadStream() {
    std::vector<Json> documents;
    while (!lines_.done()) {
      if (lines_.indent() == 0 && lines_.text() == "---") {
        lines_.Next();
        continue;
      }
      documents.push_back(ReadNode(0));
      const bool ends = lines_.done() || (lines_.indent() == 0 && lines_.text() == "---");
      if (!ends) throw NotSimple();
    }
    return documents;
  }

 private:
  // A mapping or a list that begins at the current line.
  Json ReadNode(int depth) {
    if (depth > kDeepest) throw NotSimple();
    return IsItem(lines_.text()) ? ReadList(depth) : ReadMapping(depth);
  }

  Json ReadList(int depth) {
    Json list = Json::array();
    const std::size_t indent = lines_.indent();
    while (!lines_.done() && lines_.indent() == indent && IsItem(lines_.text())) {
      if (lines_.text() == "-") {
        lines_.Next();
        list.push_back(IsInside(indent) ? ReadNode(depth + 1) : Json());
        continue;
      }
      lines_.EnterItem();
      if (IsItem(lines_.text()) || KeyEnd(lines_.text())) {
        list.push_back(ReadNode(depth + 1));
      } else {
        list.push_back(ReadScalar(lines_.text(), indent));
      }
    }
    if (IsInside(indent)) throw NotSimple();
    return list;
  }

  Json ReadMapping(int depth) {
    Json object = Json::object();
    const std::size_t indent = lines_.indent();
    while (!lines_.done() && lines_.indent() == indent && !IsItem(lines_.text())) {
      if (indent == 0 && lines_.text() == "---") break;
      const auto end = KeyEnd(lines_.text());
      if (!end) throw NotSimple();
      std::string key = ReadKey(lines_.text().substr(0, *end));
      if (object.contains(key)) throw NotSimple();
      const std::string_view rest = lines_.text().substr(*end + 1);
      const auto begin = rest.find_first_not_of(' ');
      if (begin == std::string_view::npos) {
        lines_.Next();
        const bool has_list = !lines_.done() && lines_.indent() == indent && IsItem(lines_.text());
        object.emplace(std::move(key), IsInside(indent) || has_list ? ReadNode(depth + 1) : Json());
      } else {
        object.emplace(std::move(key), ReadScalar(rest.substr(begin), indent));
      }
    }
    if (IsInside(indent)) throw NotSimple();
    return object;
  }

  [[nodiscard]] bool IsInside(std::size_t indent) const {
    return !lines_.done() && lines_.indent() > indent;
  }

  // Where the colon behind a key stands; nothing when the line is no entry of a mapping.
  static std::optional<std::size_t> KeyEnd(std::string_view text) {
    std::size_t begin = 0;
    if (text.front() == '"' || text.front() == '\'') {
      std::string ignored;
      const auto behind = ReadQuoted(text.substr(1), text.front(), ignored);
      if (!behind) return std::nullopt;
      begin = text.size() - behind->size();
      if (begin >= text.size() || text[begin] != ':') return std::nullopt;
    } else if (!MayBeginPlain(text)) {
      return std::nullopt;
    }
    for (auto place = text.find(':', begin); place != std::string_view::npos;
         place = text.find(':', place + 1)) {
      if (place + 1 == text.size() || text[place + 1] == ' ') return place;
    }
    return std::nullopt;
  }

  static std::string ReadKey(std::string_view text) {
    if (text.front() == '"' || text.front() == '\'') {
      std::string key;
      const auto behind = ReadQuoted(text.substr(1), text.front(), key);
      if (!behind || !behind->empty()) throw NotSimple();
      return key;
    }
    std::string key(text);
    if (text.ends_with(' ') || !IsPlainInside(text) || PlainYamlScalar(key).is_null() ||
        key == "<<") {
      throw NotSimple();
    }
    return key;
  }

  // The value whose text begins with `text`, the end of the current line; `parent` is the
  // indentation of its key or dash.
  Json ReadScalar(std::string_view text, std::size_t parent) {
    if (text == "|" || text == "|-") return lines_.TakeBlock(parent, text == "|-");
    if (text == "{}" || text == "[]") {
      lines_.Next();
      if (IsInside(parent)) throw NotSimple();
      return text == "{}" ? Json::object() : Json::array();
    }
    if (text.front() == '"' || text.front() == '\'') return ReadQuotedScalar(text, parent);
    if (!MayBeginPlain(text)) throw NotSimple();
    std::string value;
    for (;;) {
      if (!IsPlainInside(text)) throw NotSimple();
      value += text;
      lines_.Next();
      if (!IsInside(parent)) break;
      if (!lines_.follows()) throw NotSimple();
      text = lines_.text();
      value += ' ';
    }
    return PlainYamlScalar(value);
  }

  Json ReadQuotedScalar(std::string_view text, std::size_t parent) {
    const char quote = text.front();
    std::string value;
    text.remove_prefix(1);
    for (;;) {
      const auto behind = ReadQuoted(text, quote, value);
      lines_.Next();
      if (behind) {
        if (!behind->empty() || IsInside(parent)) throw NotSimple();
        return value;
      }
      if (!IsInside(parent) || !lines_.follows()) throw NotSimple();
      // The break between two lines is one space.
      value = std::string(WithoutTrailingSpaces(value)) + ' ';
      text = lines_.text();
    }
  }

  Lines lines_;
};

}  // namespace

std::optional<std::vector<Json>> ReadBlockYaml(std::string_view text) {
  try {
    return Reader(text).ReadStream();
  } catch (const NotSimple&) {
    return std::nullopt;
  }
}

}  // namespace pitcrew::codec
