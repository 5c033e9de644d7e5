#include "snapshot/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "codec/yaml.h"
#include "snapshot/list_cutter.h"
#include "snapshot/trim.h"

namespace pitcrew::snapshot {
namespace {

using codec::Json;

// One document of a stream and the line (from 1) at which it begins.
struct Document {
  std::string_view text;
  std::size_t line = 1;
};

// "---" at the beginning of a line, alone or with something behind a space. Nothing inside a
// document can look like that, block scalars included.
bool IsSeparator(std::string_view line) {
  return line.starts_with("---") &&
         (line.size() == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r');
}

std::vector<Document> SplitStream(std::string_view text) {
  std::vector<Document> documents;
  std::size_t begin = 0;       // of the document
  std::size_t begin_line = 1;  // its line
  std::size_t line = 1;
  for (std::size_t place = 0; place < text.size();) {
    std::size_t end = text.find('\n', place);
    if (end == std::string_view::npos) end = text.size();
    if (IsSeparator(text.substr(place, end - place))) {
      documents.push_back({text.substr(begin, place - begin), begin_line});
      begin = place;
      begin_line = line;
    }
    place = end + 1;
    ++line;
  }
  documents.push_back({text.substr(std::min(begin, text.size())), begin_line});
  return documents;
}

base::Result<Json> ParseDocument(const Document& document, std::string_view source) {
  auto parsed = codec::ParseYaml(document.text, source);
  if (parsed) return parsed;
  // Once more, with as many lines in front as there are in the file: then the error tells the line.
  return codec::ParseYaml(std::string(document.line - 1, '\n').append(document.text), source);
}

bool IsList(const Json& value) {
  const Json* items = codec::Find(value, {"items"});
  return items != nullptr && items->is_array() &&
         codec::FindString(value, {"kind"}).ends_with("List");
}

// Hands out objects; `place` names them in errors.
class Teller {
 public:
  explicit Teller(const ObjectVisitor& visit) : visit_(visit) {}

  // An object, or the items of a list.
  base::Status Tell(Json value, const std::string& place) {
    if (!IsList(value)) return TellObject(std::move(value), place);
    const ListType type = ListType::Of(value);
    std::size_t number = 0;
    for (Json& item : value["items"]) {
      TRY(TellItem(std::move(item), type, ++number, place));
    }
    return {};
  }

  // What the items of a typed list (NodeList) have in common: they come without their own type.
  struct ListType {
    std::string kind;  // "" of a plain List
    std::string version;

    static ListType Of(const Json& list) {
      const std::string kind = codec::FindString(list, {"kind"});
      return {.kind = kind.substr(0, kind.size() - std::string_view("List").size()),
              .version = codec::FindString(list, {"apiVersion"})};
    }
  };
  base::Status TellItem(Json item, const ListType& type, std::size_t number,
                        const std::string& place) {
    if (item.is_object() && !type.kind.empty()) {
      if (!item.contains("kind")) item["kind"] = type.kind;
      if (!item.contains("apiVersion")) item["apiVersion"] = type.version;
    }
    if (!IsList(item)) {
      const base::Status told = TellObject(std::move(item), "");
      if (told) return {};
      return base::Fail(told.error().Within(fmt::format("{}, item {}", place, number)));
    }
    return Tell(std::move(item), fmt::format("{}, item {}", place, number));
  }

  // How many objects there were so far.
  [[nodiscard]] std::size_t position() const { return told_; }
  // The text behind that position is read again in another way: what was handed out of it is not
  // handed out twice.
  void Rewind(std::size_t position) {
    known_ = std::max(known_, told_);
    told_ = position;
  }

 private:
  base::Status TellObject(Json object, const std::string& place) {
    if (told_++ < known_) return {};
    Trim(object);
    const base::Status visited = visit_(std::move(object));
    if (visited) return {};
    base::Error error = visited.error();
    error.code = base::Code::kInvalid;
    return base::Fail(place.empty() ? error : error.Within(place));
  }

  const ObjectVisitor& visit_;
  std::size_t told_ = 0;
  std::size_t known_ = 0;
};

using Parser = std::function<base::Result<Json>(std::string_view text)>;

// Item by item. False when the pieces are not those of a list after all, or one is no valid text:
// then the whole is to be read, which knows more, or says what is wrong.
base::Result<bool> TellPieces(const CutList& list, const Parser& parse, const Parser& parse_item,
                              const std::string& place, Teller& teller) {
  const auto rest = parse(list.rest);
  if (!rest || !rest->is_object() || rest->contains("items") ||
      !codec::FindString(*rest, {"kind"}).ends_with("List")) {
    return false;
  }
  const auto type = Teller::ListType::Of(*rest);
  std::size_t number = 0;
  for (const std::string_view text : list.items) {
    auto item = parse_item(text);
    if (!item) return false;
    TRY(teller.TellItem(*std::move(item), type, ++number, place));
  }
  return true;
}

base::Result<Json> ParseYamlItem(std::string_view text) {
  TRY_ASSIGN(Json items, codec::ParseYaml(text, "item"));
  if (items.is_array() && items.size() == 1) return std::move(items[0]);
  return base::Fail(base::Invalid("NotAnItem", "this is not one item"));
}

base::Status VisitDocument(const Document& document, std::string_view source, Teller& teller) {
  const std::string place = fmt::format("{}: document at line {}", source, document.line);
  if (const auto list = CutYamlList(document.text)) {
    const std::size_t begin = teller.position();
    const auto parse = [&](std::string_view text) { return codec::ParseYaml(text, source); };
    TRY_ASSIGN(const bool told, TellPieces(*list, parse, ParseYamlItem, place, teller));
    if (told) return {};
    teller.Rewind(begin);
  }
  TRY_ASSIGN(Json value, ParseDocument(document, source));
  return value.is_null() ? base::Status() : teller.Tell(std::move(value), place);
}

bool LooksLikeJson(std::string_view text) { return base::Trim(text).starts_with('{'); }

}  // namespace

base::Status VisitText(std::string_view text, std::string_view source, const ObjectVisitor& visit) {
  Teller teller(visit);
  if (LooksLikeJson(text)) {
    // JSON is YAML too, but a reader of its own is much faster; a stream of several is YAML.
    const auto parse = [&](std::string_view piece) { return codec::ParseJson(piece, source); };
    if (const auto list = CutJsonList(text)) {
      TRY_ASSIGN(const bool told, TellPieces(*list, parse, parse, std::string(source), teller));
      if (told) return {};
      teller.Rewind(0);
    }
    if (auto parsed = parse(text)) return teller.Tell(*std::move(parsed), std::string(source));
  }
  for (const Document& document : SplitStream(text)) {
    TRY(VisitDocument(document, source, teller));
  }
  return {};
}

std::string NameOfInput(const std::string& path) { return path == "-" ? "standard input" : path; }

base::Result<std::string> ReadInput(const std::string& path) {
  if (path != "-") return base::ReadFile(path);
  std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  if (std::cin.bad()) {
    return base::Fail(base::Unavailable("UnreadableInput", "standard input cannot be read"));
  }
  return text;
}

base::Status VisitFile(const std::string& path, const ObjectVisitor& visit) {
  TRY_ASSIGN(const std::string text, ReadInput(path));
  return VisitText(text, NameOfInput(path), visit);
}

}  // namespace pitcrew::snapshot
