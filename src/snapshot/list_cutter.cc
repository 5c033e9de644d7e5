#include "snapshot/list_cutter.h"

#include <algorithm>

namespace pitcrew::snapshot {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

// Walks over JSON values without reading them.
class JsonWalk {
 public:
  explicit JsonWalk(std::string_view text) : text_(text) { SkipSpaces(); }

  [[nodiscard]] bool ended() const { return place_ >= text_.size(); }
  // Steps over `mark` and the spaces behind it, if it is next.
  bool Take(char mark) {
    if (ended() || text_[place_] != mark) return false;
    ++place_;
    SkipSpaces();
    return true;
  }
  [[nodiscard]] bool IsNext(char mark) const { return !ended() && text_[place_] == mark; }
  // The text of the next value, and steps over it; nothing when there is none.
  std::optional<std::string_view> TakeValue() {
    const std::size_t begin = place_;
    if (!SkipValue() || place_ == begin) return std::nullopt;
    const std::string_view value = text_.substr(begin, place_ - begin);
    SkipSpaces();
    return value;
  }

 private:
  void SkipSpaces() { place_ = std::min(text_.find_first_not_of(kSpaces, place_), text_.size()); }

  bool SkipString() {
    for (++place_; !ended(); ++place_) {
      if (text_[place_] == '"') {
        ++place_;
        return true;
      }
      if (text_[place_] == '\\') ++place_;  // what is escaped is no end
    }
    return false;
  }

  // A string, a number or word, or everything up to the bracket that closes the one here.
  bool SkipValue() {
    if (IsNext('"')) return SkipString();
    if (!IsNext('{') && !IsNext('[')) {
      place_ = std::min(text_.find_first_of(",]}\"{[:", place_), text_.size());
      return true;
    }
    int depth = 0;
    while (!ended()) {
      const char next = text_[place_];
      if (next == '"') {
        if (!SkipString()) return false;
        continue;
      }
      ++place_;
      if (next == '{' || next == '[') ++depth;
      if ((next == '}' || next == ']') && --depth == 0) return true;
    }
    return false;
  }

  std::string_view text_;
  std::size_t place_ = 0;
};

std::optional<std::vector<std::string_view>> CutJsonItems(JsonWalk& walk) {
  std::vector<std::string_view> items;
  if (!walk.Take('[')) return std::nullopt;
  if (walk.Take(']')) return items;
  do {
    const auto item = walk.TakeValue();
    if (!item) return std::nullopt;
    items.push_back(*item);
  } while (walk.Take(','));
  if (!walk.Take(']')) return std::nullopt;
  return items;
}

std::string_view LineAt(std::string_view text, std::size_t place) {
  return text.substr(place, text.find('\n', place) - place);
}

bool IsItem(std::string_view line) { return line == "-" || line.starts_with("- "); }

// A line that belongs to the value above it, or says nothing.
bool IsInside(std::string_view line) {
  return line.empty() || line == "\r" || line.starts_with(' ') || line.starts_with('#');
}

}  // namespace

std::optional<CutList> CutJsonList(std::string_view text) {
  JsonWalk walk(text);
  if (!walk.Take('{')) return std::nullopt;
  std::optional<std::vector<std::string_view>> items;
  std::string rest = "{";
  do {
    const auto name = walk.TakeValue();
    if (!name || !name->starts_with('"') || !walk.Take(':')) return std::nullopt;
    if (*name == "\"items\"") {
      if (items) return std::nullopt;  // twice
      items = CutJsonItems(walk);
      if (!items) return std::nullopt;
      continue;
    }
    const auto value = walk.TakeValue();
    if (!value) return std::nullopt;
    if (rest.size() > 1) rest += ',';
    rest.append(*name).append(":").append(*value);
  } while (walk.Take(','));
  if (!walk.Take('}') || !walk.ended() || !items) return std::nullopt;
  return CutList{.rest = rest + "}", .items = *std::move(items)};
}

std::optional<CutList> CutYamlList(std::string_view text) {
  std::optional<CutList> list;
  std::size_t begin = 0;  // of the item that is being walked over
  bool in_items = false;
  std::string rest;
  for (std::size_t place = 0; place < text.size();) {
    const std::string_view line = LineAt(text, place);
    const bool item = in_items && IsItem(line);
    if (in_items && begin != 0 && !IsInside(line)) {
      list->items.push_back(text.substr(begin, place - begin));
      begin = 0;
    }
    if (item) {
      begin = place;
    } else if (in_items && begin == 0 && line.starts_with(' ')) {
      return std::nullopt;  // items that are indented, or another value
    } else if (!in_items || !IsInside(line)) {
      in_items = line == "items:" || line == "items:\r";
      if (in_items && list) return std::nullopt;  // twice
      if (in_items) {
        list.emplace();
      } else {
        rest.append(line).append("\n");
      }
    }
    place += line.size() + 1;
  }
  if (!list) return std::nullopt;
  if (in_items && begin != 0) list->items.push_back(text.substr(begin));
  list->rest = std::move(rest);
  return list;
}

}  // namespace pitcrew::snapshot
