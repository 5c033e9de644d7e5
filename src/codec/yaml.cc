#include "codec/yaml.h"

#include <fmt/format.h>

#include "codec/yaml_reader.h"

namespace pitcrew::codec {
namespace {

base::Result<Json> OneDocument(std::string_view text, std::string_view source, YamlMarks* marks) {
  TRY_ASSIGN(auto documents, ReadYamlDocuments(text, source, marks));
  if (documents.size() > 1) {
    return base::Fail(base::Invalid(
        "InvalidYaml",
        fmt::format("{}: one document is expected, not {}", source, documents.size())));
  }
  return documents.empty() ? Json() : std::move(documents.front());
}

}  // namespace

base::Result<std::vector<Json>> ParseYamlStream(std::string_view text, std::string_view source) {
  return ReadYamlDocuments(text, source, nullptr);
}

base::Result<Json> ParseYaml(std::string_view text, std::string_view source) {
  return OneDocument(text, source, nullptr);
}

base::Result<Json> ParseYaml(std::string_view text, std::string_view source, YamlPlaces& places) {
  places.source_ = source;
  return OneDocument(text, source, &places.marks_);
}

std::string YamlPlaces::Of(std::string_view pointer) const {
  for (;;) {
    if (const auto mark = marks_.find(pointer); mark != marks_.end()) {
      return fmt::format("{}:{}:{}", source_, mark->second.first, mark->second.second);
    }
    if (pointer.empty()) return source_;
    pointer = pointer.substr(0, pointer.rfind('/'));
  }
}

}  // namespace pitcrew::codec
