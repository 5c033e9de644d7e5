#include "snapshot/file.h"

#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "codec/yaml.h"
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

// Adds an object, or the items of a list; `place` names it in errors.
base::Status AddValue(Snapshot& snapshot, Json value, const std::string& place) {
  if (!IsList(value)) {
    Trim(value);
    const base::Status added = snapshot.Add(std::move(value));
    if (added) return {};
    base::Error error = added.error();
    error.code = base::Code::kInvalid;
    return base::Fail(error.Within(place));
  }
  // The items of a typed list (NodeList) come without their own type.
  const std::string list_kind = codec::FindString(value, {"kind"});
  const std::string kind = list_kind.substr(0, list_kind.size() - std::string_view("List").size());
  const std::string version = codec::FindString(value, {"apiVersion"});
  std::size_t number = 0;
  for (Json& item : value["items"]) {
    ++number;
    if (item.is_object() && !kind.empty()) {
      if (!item.contains("kind")) item["kind"] = kind;
      if (!item.contains("apiVersion")) item["apiVersion"] = version;
    }
    TRY(AddValue(snapshot, std::move(item), fmt::format("{}, item {}", place, number)));
  }
  return {};
}

bool LooksLikeJson(std::string_view text) { return base::Trim(text).starts_with('{'); }

}  // namespace

base::Result<Snapshot> ParseText(std::string_view text, std::string_view source) {
  Snapshot snapshot(std::string(source), /*complete=*/true);
  if (LooksLikeJson(text)) {
    // JSON is YAML too, but a reader of its own is much faster; a stream of several is YAML.
    if (auto parsed = codec::ParseJson(text, source)) {
      TRY(AddValue(snapshot, *std::move(parsed), std::string(source)));
      return snapshot;
    }
  }
  const auto documents = SplitStream(text);
  for (const Document& document : documents) {
    TRY_ASSIGN(Json value, ParseDocument(document, source));
    if (value.is_null()) continue;
    TRY(AddValue(snapshot, std::move(value),
                 fmt::format("{}: document at line {}", source, document.line)));
  }
  return snapshot;
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

base::Result<Snapshot> ReadFile(const std::string& path) {
  TRY_ASSIGN(const std::string text, ReadInput(path));
  return ParseText(text, NameOfInput(path));
}

}  // namespace pitcrew::snapshot
