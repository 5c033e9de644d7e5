#include "shim/runtime.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/strings.h"
#include "cdi/apply.h"
#include "cdi/driver_annotations.h"
#include "cdi/name.h"
#include "cdi/registry.h"
#include "shim/arguments.h"
#include "shim/gated_devices.h"
#include "shim/legacy_rules.h"
#include "shim/prepared_edits.h"
#include "shim/requests.h"
#include "shim/requirements.h"

namespace pitcrew::shim {
namespace {

constexpr std::string_view kStandardFolders =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

bool IsNvidiaHook(const std::string& path) {
  const std::string name =
      path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  return name == "nvidia-container-runtime-hook" || name == "nvidia-container-toolkit";
}

bool IsExecutable(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

// A runtime list that leads back to this program would exec itself for ever.
bool IsThisProgram(const std::string& path) {
  struct stat self{};
  struct stat other{};
  return ::stat("/proc/self/exe", &self) == 0 && ::stat(path.c_str(), &other) == 0 &&
         self.st_dev == other.st_dev && self.st_ino == other.st_ino;
}

std::vector<std::string> Candidates(const std::string& name) {
  if (name.find('/') != std::string::npos) return {name};
  const char* path = std::getenv("PATH");
  std::vector<std::string> found;
  for (const auto& folders :
       {std::string(path != nullptr ? path : ""), std::string(kStandardFolders)}) {
    for (const auto& folder : base::Split(folders, ':')) {
      if (folder.starts_with('/')) found.push_back(folder + "/" + name);
    }
  }
  return found;
}

// The requested names that stand for no device at all: "<kind>=none", unless a specification
// defines such a device.
bool IsNone(const std::string& name, const std::set<std::string>& known) {
  return name.ends_with("=none") && !known.contains(name);
}

// What the driver brings beside devices, as upstream's mode jit-cdi makes it of "none".
base::Result<cdi::ContainerEdits> EditsWithoutDevice(const cdi::Registry& registry) {
  const auto specs = registry.SpecsOf(cdi::kRuntimeKind);
  if (specs.empty()) {
    return base::Fail(base::NotFound(
        "UnresolvableCdiDevices", fmt::format("unresolvable CDI devices {}", kNoPreparedDevice)));
  }
  cdi::ContainerEdits edits;
  edits.env = {"NVCT_EMPTY_DEVICE="};
  for (const auto* spec : specs) edits.Append(spec->edits);
  return edits;
}

// What is said of a device; of none, what is said of the driver.
std::vector<cdi::Annotations> AnnotationsOf(const cdi::Registry& registry,
                                            const std::string& name) {
  auto found = registry.FindAnnotations(name);
  if (!found.empty() || name != kNoPreparedDevice) return found;
  for (const auto* spec : registry.SpecsOf(cdi::kRuntimeKind)) found.push_back(spec->annotations);
  return found;
}

// What the toolkit writes down of driver and GPUs (node/toolkit/cdi_specs.cc), by the names that
// requirements use.
Properties PropertiesOf(const cdi::Annotations& annotations) {
  Properties properties;
  for (const auto& [property, key] : cdi::kDriverAnnotations) {
    if (const auto found = annotations.find(std::string(key)); found != annotations.end()) {
      properties.emplace(property, found->second);
    }
  }
  return properties;
}

std::string ToText(const cdi::Annotations& annotations) {
  std::vector<std::string> words;
  for (const auto& [property, value] : PropertiesOf(annotations)) {
    words.push_back(property + "=" + value);
  }
  return base::Join(words, ", ");
}

base::Status EditBundle(const Arguments& arguments, const Config& config,
                        std::string_view forced_mode, const Report& report) {
  const auto path = arguments.bundle / "config.json";
  TRY_ASSIGN(const std::string text, base::ReadFile(path));
  TRY_ASSIGN(oci::Spec spec, oci::Spec::Parse(text, path.string()));
  TRY_ASSIGN(const bool changed, EditSpec(spec, config, forced_mode, report));
  if (!changed) return {};
  struct stat info{};
  const mode_t mode = ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0600;
  return base::WriteFileAtomically(path, spec.ToText(), mode);
}

// Never returns on success.
base::Error ExecLowLevelRuntime(const std::string& path, char** argv) {
  // execve does not write to the text, whose type is historical.
  argv[0] = const_cast<char*>(path.c_str());
  ::execve(path.c_str(), argv, environ);
  return base::FromErrno(errno, "execute " + path);
}

base::Status Run(int argc, char** argv, std::string_view forced_mode, Report& report) {
  const std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
  const auto arguments = ParseArguments(words);
  if (arguments) report.AddFile(arguments->log_file, arguments->json_log);
  if (!arguments) return base::Fail(arguments.error());
  const auto config_path = ConfigPath(ProgramFolder());
  auto loaded = LoadConfig(config_path);
  // Containers that run must be seen, stopped and removed whatever has become of the file.
  if (!loaded && arguments->is_create) return base::Fail(loaded.error());
  const Config config = loaded ? *std::move(loaded) : SalvageConfig(config_path);
  if (!loaded) {
    report.Warning(fmt::format("of {} only the low-level runtimes are used ({}): {}",
                               config_path.string(), base::Join(config.runtimes, ", "),
                               loaded.error().ToString()));
  }
  if (!arguments->wants_version) report.AddFile(config.debug_log, arguments->json_log);
  const bool is_legacy = (forced_mode.empty() ? config.mode : forced_mode) == "legacy";
  if (is_legacy && arguments->is_create) report.AddFile(config.legacy_log, arguments->json_log);
  const bool known_level = report.SetLevel(arguments->debug ? "debug" : config.log_level);
  if (arguments->wants_version) {
    fmt::print("NVIDIA Container Runtime version {} (Pitcrew)\nspec: 1.2.1\n\n", PITCREW_VERSION);
    std::fflush(stdout);
  }
  TRY_ASSIGN(const std::string low_level, FindLowLevelRuntime(config.runtimes));
  if (arguments->is_create && !known_level) {
    report.Warning("log-level \"" + config.log_level + "\" is not known: it is info");
  }
  if (arguments->is_create && !config.unheeded.empty()) {
    report.Warning(ToText(config.unheeded, config_path));
  }
  if (arguments->is_create) TRY(EditBundle(*arguments, config, forced_mode, report));
  report.Debug("executing " + low_level);
  return base::Fail(ExecLowLevelRuntime(low_level, argv));
}

// What the image requires, against what the specification says of driver and GPUs.
base::Status CheckRequirements(const oci::Spec& spec, const Config& config,
                               const cdi::Registry& registry,
                               const std::vector<std::string>& names) {
  TRY_ASSIGN(const auto requirements, FindRequirements(spec, config.disable_require));
  for (const auto& requirement : requirements) {
    // Also without a GPU of which anything is known: a faulty requirement is told.
    TRY(IsMet(requirement, {}));
    for (const auto& name : names) {
      for (const auto& annotations : AnnotationsOf(registry, name)) {
        TRY_ASSIGN(const bool met, IsMet(requirement, PropertiesOf(annotations)));
        if (met) continue;
        return base::Fail(base::Error{
            base::Code::kUnsupported, "RequirementNotMet",
            fmt::format("the image requires \"{}\", which {} does not meet ({}); use an image for "
                        "this driver, or set NVIDIA_DISABLE_REQUIRE=true",
                        requirement, name, ToText(annotations))});
      }
    }
  }
  return {};
}

// The edits of the GPUs that are asked for; none when none is.
base::Result<cdi::ContainerEdits> EditsForRequests(const oci::Spec& spec, const Config& config,
                                                   const Resolution& resolution,
                                                   const Report& report) {
  if (resolution.names.empty()) return cdi::ContainerEdits();
  if (resolution.mode == Mode::kLegacy) TRY(CheckLegacyRules(spec, config));
  std::set<std::string> kinds;
  for (const auto& name : resolution.names) kinds.insert(name.substr(0, name.find('=')));
  const std::vector<std::string> kind_list(kinds.begin(), kinds.end());
  const auto registry = cdi::Registry::Load(config.spec_folders, kind_list);
  for (const auto& error : registry.errors()) report.Warning(error.ToString());
  const auto known_list = registry.DeviceNames();
  const std::set<std::string> known(known_list.begin(), known_list.end());
  std::vector<std::string> wanted;
  for (const auto& name : resolution.names) {
    if (!IsNone(name, known) || name == kNoPreparedDevice) wanted.push_back(name);
  }
  if (wanted.empty()) return cdi::ContainerEdits();
  if (resolution.mode == Mode::kLegacy || resolution.mode == Mode::kCsv) {
    TRY(CheckRequirements(spec, config, registry, wanted));
  }
  if (HeedsLists(resolution.mode)) {
    for (const auto& name : wanted) {
      TRY(CheckLists(config, resolution.mode, AnnotationsOf(registry, name)));
    }
  }
  const bool without_device = wanted.front() == kNoPreparedDevice && IsNone(wanted.front(), known);
  auto edits = without_device ? EditsWithoutDevice(registry) : registry.Resolve(wanted);
  if (edits) {
    TakeAway(config, resolution.mode, *edits);
    report.Debug("injected " + cdi::SomeNames(wanted));
    return edits;
  }
  std::string folders;
  for (const auto& folder : config.spec_folders)
    folders += (folders.empty() ? "" : ", ") + folder.string();
  auto error = edits.error();
  error.message += fmt::format(" (no specification in {} defines them)", folders);
  return base::Fail(std::move(error));
}

// Of devices and mounts; "" where all are there.
std::string MissingSource(const cdi::ContainerEdits& edits) {
  const auto lacks = [](const std::string& path) { return ::access(path.c_str(), F_OK) != 0; };
  for (const auto& node : edits.device_nodes) {
    const std::string& path = node.host_path.empty() ? node.path : node.host_path;
    if (lacks(path)) return path;
  }
  for (const auto& mount : edits.mounts) {
    if (lacks(mount.host_path)) return mount.host_path;
  }
  return "";
}

// Why a container that asks for GPUs is started without any: images of CUDA ask for all there are,
// wherever they run. Who names a device with its kind was promised it by somebody, and gets an
// error. Drivers that are no module of that name (a Tegra system's) have all that is injected.
std::string WhyWithoutDriver(const base::Result<cdi::ContainerEdits>& edits, const Config& config,
                             const Resolution& resolution) {
  if (!config.installed || resolution.names_a_kind || resolution.names.empty()) return "";
  if (::access(config.driver_module.c_str(), F_OK) == 0 || errno != ENOENT) return "";
  if (edits) {
    const auto missing = MissingSource(*edits);
    return missing.empty() ? "" : missing + " is not there";
  }
  return edits.error().reason == "UnresolvableCdiDevices" ? edits.error().message : "";
}

// Devices beside GPUs, where GPUs are asked for, or none by that word. For devices of other kinds
// upstream looks into specifications alone (newJitCDIModifier).
bool MayHaveOthers(const Resolution& resolution) {
  if (resolution.names.empty()) return false;
  const bool by_kind = resolution.mode == Mode::kCdi || resolution.mode == Mode::kPrepared;
  return !by_kind || IsPrepared(resolution.names.front());
}

}  // namespace

base::Result<std::string> FindLowLevelRuntime(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    for (auto& candidate : Candidates(name)) {
      if (IsExecutable(candidate) && !IsThisProgram(candidate)) return std::move(candidate);
    }
  }
  return base::Fail(base::NotFound(
      "LowLevelRuntimeNotFound",
      fmt::format(
          "none of {} can be executed; install one, or name it in nvidia-container-runtime.runtimes"
          " of config.toml",
          base::Join(names, ", "))));
}

base::Result<bool> EditSpec(oci::Spec& spec, const Config& config, std::string_view forced_mode,
                            const Report& report) {
  TRY_ASSIGN(const Resolution resolution, ResolveRequests(spec, config, forced_mode));
  for (const auto& warning : resolution.warnings) report.Warning(warning);
  const bool removed = spec.RemoveHooks("prestart", IsNvidiaHook) > 0;
  auto found = EditsForRequests(spec, config, resolution, report);
  if (const auto why = WhyWithoutDriver(found, config, resolution); !why.empty()) {
    report.Warning("the container starts without GPUs: the module nvidia is not loaded, and " +
                   why);
    return removed;
  }
  TRY_ASSIGN(auto edits, std::move(found));
  if (MayHaveOthers(resolution)) {
    TRY_ASSIGN(auto others, FindGatedRequests(spec, config, resolution.mode));
    const auto more = GatedEdits(others, config.driver_root);
    for (const auto& warning : others.warnings) report.Warning(warning);
    if (!more) return base::Fail(more.error());
    edits.Append(*more);
  }
  if (resolution.mode == Mode::kLegacy && !resolution.names.empty()) {
    std::vector<std::string> warnings;
    edits.Append(MigControlEdits(spec, config, warnings));
    for (const auto& warning : warnings) report.Warning(warning);
  }
  if (edits == cdi::ContainerEdits()) return removed;
  // no-cgroups: who starts containers may not say there which devices they open.
  const bool rules = resolution.mode != Mode::kLegacy || config.legacy_device_rules;
  TRY(cdi::Apply(edits, spec, cdi::LookUpNode, rules));
  return true;
}

int RunRuntime(int argc, char** argv, std::string_view forced_mode) {
  Report report;
  const auto status = Run(argc, argv, forced_mode, report);
  if (!status) report.Error(status.error());
  return 1;
}

}  // namespace pitcrew::shim
