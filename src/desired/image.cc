#include "desired/image.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace pitcrew::desired {
namespace {

// White space in a reference can only be a slip, and the kubelet's message for it comes late.
base::Status CheckReference(const api::ImageSpec& spec, std::string_view reference) {
  if (reference.find_first_of(" \t\r\n") == std::string_view::npos) return {};
  return base::Fail(base::Invalid(
      "InvalidImage", fmt::format("{}.image: \"{}\" is not an image reference: it contains white "
                                  "space",
                                  spec.path, reference)));
}

}  // namespace

DefaultImages ReadDefaultImages(const std::vector<std::string_view>& variables,
                                const base::CommandLine::Environment& environment) {
  DefaultImages images;
  for (const std::string_view variable : variables) {
    const std::string name(variable);
    if (auto image = environment(name)) images[name] = *std::move(image);
  }
  return images;
}

base::Result<std::string> ResolveImage(const api::ImageSpec& spec, std::string_view variable,
                                       const DefaultImages& defaults) {
  std::string reference;
  if (spec.repository.empty() && spec.version.empty()) {
    if (!spec.image.empty()) {
      reference = spec.image;
    } else {
      const auto found = defaults.find(variable);
      if (found == defaults.end() || found->second.empty()) {
        return base::Fail(base::Invalid(
            "ImageMissing",
            fmt::format("{0}.image: empty image path: set {0}.repository, {0}.image and "
                        "{0}.version, or the operator's environment variable {1}",
                        spec.path, variable)));
      }
      reference = found->second;
    }
  } else {
    const std::string_view missing = spec.repository.empty() ? "repository"
                                     : spec.image.empty()    ? "image"
                                     : spec.version.empty()  ? "version"
                                                             : "";
    if (!missing.empty()) {
      return base::Fail(base::Invalid(
          "InvalidImage",
          fmt::format("{}.{}: invalid image specification: repository \"{}\", image \"{}\" and "
                      "version \"{}\" must be set together",
                      spec.path, missing, spec.repository, spec.image, spec.version)));
    }
    const std::string_view separator = spec.version.starts_with("sha256:") ? "@" : ":";
    reference = fmt::format("{}/{}{}{}", spec.repository, spec.image, separator, spec.version);
  }
  TRY(CheckReference(spec, reference));
  return reference;
}

std::string WithOsTag(std::string image, const OsRelease& os) {
  if (image.contains("sha256:")) return image;
  return image + "-" + os.tag();
}

base::Result<std::string> ResolvePrecompiledImage(const api::ImageSpec& spec,
                                                  std::string_view variable,
                                                  const DefaultImages& defaults,
                                                  std::string_view kernel, const OsRelease& os) {
  // Upstream joins the parts without looking whether one is empty; here an incomplete
  // specification is the same error as without precompiled drivers.
  TRY_ASSIGN(std::string image, ResolveImage(spec, variable, defaults));
  if (image.contains("sha256:")) {
    return base::Fail(base::Invalid(
        "InvalidImage",
        fmt::format("{}.version: a digest names one image, but precompiled drivers need one for "
                    "each kernel: {}",
                    spec.path, image)));
  }
  return WithOsTag(fmt::format("{}-{}", image, kernel), os);
}

std::string_view PullPolicy(std::string_view text) {
  if (text == "Always" || text == "Never") return text;
  return "IfNotPresent";
}

}  // namespace pitcrew::desired
