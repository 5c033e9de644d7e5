#include "node/nfd/config_texts.h"

#include "base/file.h"
#include "base/log.h"
#include "codec/config_reader.h"

namespace pitcrew::node::nfd {
namespace {

base::Result<codec::Json> ParseConfig(const std::string& text, const std::string& source) {
  TRY_ASSIGN(const auto document, codec::ConfigDocument::Parse(text, source));
  if (document.empty()) return codec::Json::object();
  TRY(document.Root());
  return document.value();
}

}  // namespace

base::Result<ConfigTexts> ReadConfigTexts(const std::filesystem::path& file,
                                          const std::string& options) {
  ConfigTexts texts{codec::Json::object(), codec::Json::object()};
  const auto text = base::ReadFile(file);
  if (text) {
    TRY_ASSIGN(texts.file, ParseConfig(*text, file.string()));
  } else if (text.error().code == base::Code::kNotFound) {
    base::LogInfo("There is no configuration file; defaults are used", {{"file", file.string()}});
  } else {
    return base::Fail(text.error());
  }
  TRY_ASSIGN(texts.options, ParseConfig(options, "-options"));
  return texts;
}

codec::Json MergedConfig(const ConfigTexts& texts) {
  auto merged = texts.file;
  codec::ApplyMergePatch(merged, texts.options);
  return merged;
}

}  // namespace pitcrew::node::nfd
