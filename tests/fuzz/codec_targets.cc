#include <cmath>
#include <string>

#include "codec/base64.h"
#include "codec/json.h"
#include "codec/toml.h"
#include "codec/yaml.h"
#include "fuzz/target.h"

namespace pitcrew::fuzz {
namespace {

using codec::Json;

// A value that no text can bring back: JSON has no NaN and no infinity.
bool HasOddNumber(const Json& value) {
  if (value.is_number_float()) return !std::isfinite(value.get<double>());
  if (!value.is_structured()) return false;
  for (const Json& member : value) {
    if (HasOddNumber(member)) return true;
  }
  return false;
}

void ReadJson(std::string_view input) {
  const auto value = codec::ParseJson(input);
  if (!value) return;
  const auto again = codec::ParseJson(codec::ToJsonText(*value));
  Check(again && *again == *value, "JSON that is written reads as the same value");
}

void ReadYaml(std::string_view input) {
  codec::YamlPlaces places;
  const auto value = codec::ParseYaml(input, "input", places);
  (void)codec::ParseYamlStream(input);
  if (!value) return;
  (void)places.Of("/a/0");
  if (HasOddNumber(*value)) return;
  const auto again = codec::ParseYaml(codec::ToYamlText(*value));
  Check(again && *again == *value, "YAML that is written reads as the same value");
}

void ReadToml(std::string_view input) {
  const auto value = codec::ParseToml(input);
  if (!value || HasOddNumber(*value)) return;
  const std::string text = codec::ToTomlText(*value);
  const auto again = codec::ParseToml(text);
  Check(again && *again == *value, "TOML that is written reads as the same value");
}

void ReadBase64(std::string_view input) { (void)codec::DecodeBase64(input); }

constexpr Target kTargets[] = {
    {"json", ReadJson}, {"yaml", ReadYaml}, {"toml", ReadToml}, {"base64", ReadBase64}};

}  // namespace

std::span<const Target> CodecTargets() { return kTargets; }

}  // namespace pitcrew::fuzz
