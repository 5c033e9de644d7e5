// GPU models as data: simulation/profiles/<name>.yaml, compiled in; a folder given at run time
// comes first.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "simulation/state/layout.h"

namespace pitcrew::simulation {

struct EmbeddedProfile {
  std::string_view name;
  std::string_view text;
};
// By NVML's numbers.
inline constexpr std::string_view kAddressingModes[] = {"none", "hmm", "ats"};

// Sorted by name; defined in a source that the build makes from the data files.
extern const std::vector<EmbeddedProfile>& EmbeddedProfiles();

// Names that can stand behind "profile:".
[[nodiscard]] std::vector<std::string> ProfileNames(const std::filesystem::path& folder);

// The text of a profile, and what errors call it; errors as LoadProfile.
struct ProfileText {
  std::string text;
  std::string source;
};
base::Result<ProfileText> ReadProfileText(std::string_view name,
                                          const std::filesystem::path& folder);

// A GPU as the profile describes it, without what is its own (UUID, address, ...). kNotFound
// "UnknownProfile" lists the names; kInvalid "MalformedDescription" names file, line and cause.
base::Result<GpuState> LoadProfile(std::string_view name, const std::filesystem::path& folder);

// The same from text; `source` names it in errors.
base::Result<GpuState> ParseProfile(const std::string& text, const std::string& source);

}  // namespace pitcrew::simulation
