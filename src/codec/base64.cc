#include "codec/base64.h"

#include <fmt/format.h>

#include <cstdint>

namespace pitcrew::codec {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const bool there = i + k < bytes.size();
      group = group << 8U | (there ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      const bool padding = i + k > bytes.size();
      text += padding ? '=' : kAlphabet[group >> (18U - 6U * k) & 63U];
    }
  }
  return text;
}

base::Result<std::string> DecodeBase64(std::string_view text) {
  const auto wrong = [](std::string_view what) {
    return base::Fail(base::Invalid("InvalidBase64", fmt::format("not base64: {}", what)));
  };
  std::string bytes;
  std::uint32_t group = 0;
  int digits = 0;
  int padding = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    const auto value = kAlphabet.find(c);
    if (c == '=') {
      ++padding;
    } else if (value == std::string_view::npos) {
      return wrong(fmt::format("character \"{}\"", c));
    } else if (padding > 0) {
      return wrong("text after the padding");
    }
    group = group << 6U | static_cast<std::uint32_t>(c == '=' ? 0 : value);
    if (++digits < 4) continue;
    if (padding > 2) return wrong("too much padding");
    for (int k = 0; k < 3 - padding; ++k) bytes += static_cast<char>(group >> (16 - 8 * k) & 255U);
    group = 0;
    digits = 0;
  }
  if (digits != 0) return wrong("the end is missing");
  return bytes;
}

}  // namespace pitcrew::codec
