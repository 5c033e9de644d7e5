#include "desired/image_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/ascii.h"
#include "base/strings.h"

namespace pitcrew::desired {
namespace {

constexpr std::size_t kLongestTag = 128;
constexpr std::size_t kDigestDigits = 64;  // of SHA-256
constexpr std::string_view kDigest = "sha256:";

bool IsSmall(char c) { return (c >= 'a' && c <= 'z') || base::IsDigit(c); }
bool IsAlphanumeric(char c) { return base::IsLetter(c) || base::IsDigit(c); }

bool IsTag(std::string_view text) {
  const auto fits = [](char c) { return IsAlphanumeric(c) || c == '_' || c == '.' || c == '-'; };
  return !text.empty() && text.size() <= kLongestTag && text.front() != '.' &&
         text.front() != '-' && std::ranges::all_of(text, fits);
}

bool IsDigest(std::string_view text) {
  const auto fits = [](char c) { return base::IsDigit(c) || (c >= 'a' && c <= 'f'); };
  return text.starts_with(kDigest) && text.size() == kDigest.size() + kDigestDigits &&
         std::ranges::all_of(text.substr(kDigest.size()), fits);
}

// Small letters and digits, with ".", "_", "__" or any number of "-" between them.
bool IsNamePart(std::string_view text) {
  if (text.empty() || !IsSmall(text.front()) || !IsSmall(text.back())) return false;
  for (std::size_t i = 0; i < text.size();) {
    if (IsSmall(text[i])) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (!IsSmall(text[i])) ++i;  // the last one is small
    const std::string_view between = text.substr(begin, i - begin);
    const bool dashes = between.find_first_not_of('-') == std::string_view::npos;
    if (!dashes && between != "." && between != "_" && between != "__") return false;
  }
  return true;
}

// A host with or without a port; IPv6 addresses stand in brackets.
bool IsHost(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && !text.ends_with(']')) {
    if (!base::ParseUnsigned(text.substr(colon + 1))) return false;
    text = text.substr(0, colon);
  }
  if (text.starts_with('[')) return text.size() > 2 && text.ends_with(']');
  const auto fits = [](char c) { return IsAlphanumeric(c) || c == '.' || c == '-'; };
  return !text.empty() && IsAlphanumeric(text.front()) && IsAlphanumeric(text.back()) &&
         std::ranges::all_of(text, fits);
}

// What is wrong with it; "" when nothing is.
std::string_view Problem(std::string_view reference) {
  if (const std::size_t at = reference.find('@'); at != std::string_view::npos) {
    if (!IsDigest(reference.substr(at + 1))) {
      return "a digest is \"sha256:\" and 64 hexadecimal digits";
    }
    reference = reference.substr(0, at);
  }
  const std::size_t name = reference.rfind('/') + 1;  // 0 without one
  if (const std::size_t colon = reference.find(':', name); colon != std::string_view::npos) {
    if (!IsTag(reference.substr(colon + 1))) {
      return "a tag has at most 128 letters, digits, \"_\", \".\" and \"-\", and begins with none "
             "of the last two";
    }
    reference = reference.substr(0, colon);
  }
  std::vector<std::string> parts = base::Split(reference, '/');
  if (parts.size() > 1 &&
      (parts.front().find_first_of(".:") != std::string::npos || !IsNamePart(parts.front()))) {
    if (!IsHost(parts.front())) return "its registry is no host";
    parts.erase(parts.begin());
  }
  if (!std::ranges::all_of(parts, IsNamePart)) {
    return "parts of its name are small letters and digits, with \".\", \"_\" or \"-\" between "
           "them";
  }
  return "";
}

}  // namespace

base::Status RequireReference(const api::ImageSpec& spec, std::string_view reference) {
  // The operator's default is none of the policy's fields.
  if (spec.repository.empty() && spec.image.empty() && spec.version.empty()) return {};
  const std::string_view problem = Problem(reference);
  if (problem.empty()) return {};
  const bool by_version = !spec.version.empty() && !IsTag(spec.version) && !IsDigest(spec.version);
  return base::Fail(base::Invalid(
      "InvalidImage", fmt::format("{}.{}: \"{}\" is not an image reference: {}", spec.path,
                                  by_version ? "version" : "image", reference, problem)));
}

}  // namespace pitcrew::desired
