#include "node/driver_container/options.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace pitcrew::node::driver_container {
namespace {

struct NamedAction {
  std::string_view name;
  Action action;
};
constexpr std::array kActions = {
    NamedAction{"init", Action::kInit},
    NamedAction{"build", Action::kBuild},
    NamedAction{"load", Action::kLoad},
    NamedAction{"update", Action::kUpdate},
    NamedAction{"preflight", Action::kPreflight},
    NamedAction{"reload_nvidia_peermem", Action::kReloadPeermem},
    NamedAction{"probe_nvidia_peermem", Action::kProbePeermem},
};
constexpr std::string_view kDescription =
    "Brings up, in a container, the NVIDIA driver that its image carries.\n\n"
    "  init                   bring the driver up, stay, and take it down at the end\n"
    "  build                  compile and install into this image, and load nothing\n"
    "  load                   bring up what `build` has made, as init does\n"
    "  update                 compile the modules for another kernel (--kernel)\n"
    "  preflight              say what init would do or miss here, and change nothing\n"
    "  reload_nvidia_peermem  load nvidia-peermem when driver and network driver are there\n"
    "  probe_nvidia_peermem   end with 1 where nvidia-peermem is missing";

base::Error Refuse(std::string message) {
  return base::Invalid("InvalidOption", std::move(message));
}

struct Flags {
  std::vector<std::string> words;
  std::optional<bool> accept_license, gpu_direct_rdma, host_mofed, no_vgpu_check;
  std::optional<std::int64_t> threads;
  std::optional<std::string> kernel, tag, report, key, certificate, version, architecture,
      driver_type, module_type, digest, licence_server, release_version;

  // Of all that compiles.
  void AddOfCompilingTo(base::CommandLine& line) {
    line.Add({"max-threads,m", "", "how many compilers run at a time (one for each processor)"},
             &threads);
    line.Add({"tag,t", "", "\"builtin\": do not refresh the lists of packages"}, &tag);
    line.Add({"sign,s", "MODULE_SIGNING_KEY", "sign compiled modules with this private key (PEM)"},
             &key);
    line.Add({"sign-certificate", "MODULE_SIGNING_CERTIFICATE",
              "its certificate (DER or PEM); without it the key's name with .x509 in place of its "
              "last part"},
             &certificate);
    line.Add({"architecture", "TARGETARCH", "amd64 or arm64 (this machine's)"}, &architecture);
    line.Add({"releasever", "DNF_RELEASEVER", "the release whose packages dnf looks for"},
             &release_version);
  }

  void AddTo(base::CommandLine& line) {
    line.AddWords("COMMAND", "one of the commands above", &words);
    line.Add({"accept-license,a", "", "without effect: whoever made the image has accepted it"},
             &accept_license);
    AddOfCompilingTo(line);
    line.Add({"kernel,k", "", "the kernel's release (the one that runs)"}, &kernel);
    line.Add({"report", "",
              "preflight: write into this file what is missing for the driver, and do not ask what "
              "only the present one stands in the way of"},
             &report);
    line.Add({"driver-version", "DRIVER_VERSION", "the driver of this image, as 580.95.05"},
             &version);
    line.Add({"driver-type", "DRIVER_TYPE", "passthrough, or vgpu in a guest with vGPUs"},
             &driver_type);
    line.Add({"kernel-module-type", "KERNEL_MODULE_TYPE", "open, proprietary or auto"},
             &module_type);
    line.Add({"gpu-direct-rdma-enabled", "GPU_DIRECT_RDMA_ENABLED", "load nvidia-peermem"},
             &gpu_direct_rdma);
    line.Add({"use-host-mofed", "USE_HOST_MOFED", "the network driver is the node's own"},
             &host_mofed);
    line.Add({"driver-config-digest", "DRIVER_CONFIG_DIGEST", "what the driver is made from"},
             &digest);
    line.Add({"license-server", "VGPU_LICENSE_SERVER_TYPE",
              "NLS: the client's token of a vGPU guest is used"},
             &licence_server);
    line.Add({"disable-vgpu-version-check", "DISABLE_VGPU_VERSION_CHECK",
              "take the driver of this image in a vGPU guest"},
             &no_vgpu_check);
  }
};

base::Result<Action> ReadAction(const std::vector<std::string>& words) {
  if (words.size() == 1) {
    for (const auto& [name, action] : kActions) {
      if (words.front() == name) return action;
    }
  }
  std::vector<std::string> names;
  for (const auto& each : kActions) names.emplace_back(each.name);
  return base::Fail(Refuse(fmt::format("write one command: {}", base::Join(names, ", "))));
}

base::Result<ModuleType> ReadModuleType(const std::string& text) {
  if (text.empty() || text == "auto") return ModuleType::kAuto;
  if (text == "open") return ModuleType::kOpen;
  if (text == "proprietary") return ModuleType::kProprietary;
  return base::Fail(Refuse(
      fmt::format("KERNEL_MODULE_TYPE is \"{}\"; it takes open, proprietary or auto", text)));
}

base::Result<std::string> ReadArchitecture(const std::string& text) {
  if (text == "amd64" || text == "x86_64") return "x86_64";
  if (text == "arm64" || text == "aarch64") return "aarch64";
  if (!text.empty()) {
    return base::Fail(
        Refuse(fmt::format("TARGETARCH is \"{}\"; there are drivers for amd64 and arm64", text)));
  }
  utsname system{};
  if (::uname(&system) != 0) return base::Fail(base::FromErrno(errno, "ask for the machine"));
  return system.machine;
}

std::map<std::string, std::string> FabricManagerSettings(
    const std::map<std::string, std::string>& variables) {
  constexpr std::string_view kPrefix = "NVFM_CONFIG_";
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : variables) {
    if (name.starts_with(kPrefix)) settings[name.substr(kPrefix.size())] = value;
  }
  return settings;
}

base::Status ReadSigning(const Flags& flags, Options& options) {
  options.signing_key = flags.key.value_or("");
  options.signing_certificate = flags.certificate.value_or("");
  if (options.signing_key.empty() && !options.signing_certificate.empty()) {
    return base::Fail(
        Refuse("there is a certificate to sign with, and no key: set "
               "MODULE_SIGNING_KEY or --sign"));
  }
  if (!options.signing_key.empty() && options.signing_certificate.empty()) {
    options.signing_certificate =
        std::filesystem::path(options.signing_key).replace_extension(".x509");
  }
  return {};
}

base::Status ReadCompiling(const Flags& flags, Options& options) {
  TRY_ASSIGN(options.architecture, ReadArchitecture(flags.architecture.value_or("")));
  TRY(ReadSigning(flags, options));
  options.threads = flags.threads.value_or(0);
  options.refresh_packages = flags.tag.value_or("") != "builtin";
  options.release_version = flags.release_version.value_or("");
  return {};
}

base::CommandLine::Environment Among(const std::map<std::string, std::string>& variables) {
  return [&variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string VersionOf(std::string_view program) {
  return fmt::format("{} of Pitcrew {}", program, PITCREW_VERSION);
}

}  // namespace

unsigned Options::branch() const {
  const auto number = base::ParseUnsigned(version.substr(0, version.find('.')));
  return number ? static_cast<unsigned>(*number) : 0;
}

std::map<std::string, std::string> OwnVariables() {
  std::map<std::string, std::string> variables;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text = *each;
    const auto sign = text.find('=');
    if (sign == std::string_view::npos) continue;
    variables.emplace(text.substr(0, sign), text.substr(sign + 1));
  }
  return variables;
}

base::Result<std::optional<Options>> ReadOptions(
    int argc, char** argv, const std::map<std::string, std::string>& variables) {
  Flags flags;
  base::CommandLine line("nvidia-driver", kDescription, VersionOf("nvidia-driver"));
  flags.AddTo(line);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, Among(variables)));
  if (!go_on) return std::nullopt;
  Options options;
  TRY_ASSIGN(options.action, ReadAction(flags.words));
  TRY_ASSIGN(options.module_type, ReadModuleType(flags.module_type.value_or("")));
  TRY(ReadCompiling(flags, options));
  const std::string type = flags.driver_type.value_or("");
  if (!type.empty() && type != "passthrough" && type != "vgpu") {
    return base::Fail(
        Refuse(fmt::format("DRIVER_TYPE is \"{}\"; it takes passthrough or vgpu", type)));
  }
  options.is_vgpu_guest = type == "vgpu";
  options.matches_vgpu_version = !flags.no_vgpu_check.value_or(true);
  options.kernel = flags.kernel.value_or("");
  options.report = flags.report.value_or("");
  if (!options.report.empty() && options.action != Action::kPreflight) {
    return base::Fail(Refuse("--report is for the command preflight only"));
  }
  options.version = flags.version.value_or("");
  options.gpu_direct_rdma = flags.gpu_direct_rdma.value_or(false);
  options.host_mofed = flags.host_mofed.value_or(false);
  options.config_digest = flags.digest.value_or("");
  options.licence_server = flags.licence_server.value_or(options.licence_server);
  options.fabric_manager = FabricManagerSettings(variables);
  return options;
}

base::Result<std::optional<Options>> ReadCompanionOptions(
    std::string_view program, std::string_view description, int argc, char** argv,
    const std::map<std::string, std::string>& variables) {
  Flags flags;
  base::CommandLine line(program, description, VersionOf(program));
  line.AddWords("COMMAND", "install", &flags.words);
  flags.AddOfCompilingTo(line);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, Among(variables)));
  if (!go_on) return std::nullopt;
  if (flags.words != std::vector<std::string>{"install"}) {
    return base::Fail(Refuse("write the command: install"));
  }
  Options options;
  TRY(ReadCompiling(flags, options));
  return options;
}

}  // namespace pitcrew::node::driver_container
