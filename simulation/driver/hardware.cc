#include "simulation/driver/hardware.h"

#include "base/file.h"
#include "simulation/description/description.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFeaturesFile = "simulated-gpus";

fs::path FeaturesFile(const HardwareOptions& options) {
  return options.host_root / options.features_folder.relative_path() / kFeaturesFile;
}

base::Status Remove(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (!error) return {};
  return base::Fail(base::FromErrno(error.value(), "remove " + path.string()));
}

base::Status Write(const HardwareOptions& options, const std::string& description) {
  TRY(base::WriteFileAtomically(options.host_root / kDescriptionFile, description));
  if (options.features_folder.empty()) return {};
  std::string lines;
  for (const auto& feature : options.features) lines += feature + "=true\n";
  return base::WriteFileAtomically(FeaturesFile(options), lines);
}

}  // namespace

base::Status ProvideHardware(const HardwareOptions& options) {
  TRY_ASSIGN(const std::string text, base::ReadFile(options.description));
  // The node's name only decides about UUIDs; a driver fills it in.
  TRY(ParseDescription(text, options.description.string(), {"node", "", {}}));
  const auto written = Write(options, text);
  if (!written) (void)RemoveHardware(options);
  return written;
}

base::Status RemoveHardware(const HardwareOptions& options) {
  base::Status features;
  // First what makes others take the node for a GPU node.
  if (!options.features_folder.empty()) features = Remove(FeaturesFile(options));
  const auto description = Remove(options.host_root / kDescriptionFile);
  return features ? description : features;
}

bool HasHardware(const fs::path& host_root) {
  std::error_code error;
  return fs::is_regular_file(host_root / kDescriptionFile, error);
}

}  // namespace pitcrew::simulation
