#include "shim/prestart_hook.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"
#include "cdi/name.h"
#include "codec/json.h"
#include "oci/spec.h"
#include "shim/config.h"
#include "shim/container_root.h"
#include "shim/report.h"
#include "shim/requests.h"

namespace pitcrew::shim {
namespace {

base::Status CheckPrestart(const std::filesystem::path& config_path) {
  TRY_ASSIGN(const Config config, LoadConfig(config_path));
  TRY_ASSIGN(const std::string state, ReadContainerState());
  TRY_ASSIGN(const auto json, codec::ParseJson(state, "the container's state"));
  std::filesystem::path bundle = codec::FindString(json, {"bundle"});
  if (bundle.empty()) bundle = codec::FindString(json, {"bundlePath"});
  TRY_ASSIGN(const std::string text, base::ReadFile(bundle / "config.json"));
  TRY_ASSIGN(const auto spec, oci::Spec::Parse(text, (bundle / "config.json").string()));
  const Requests requests = FindRequests(spec, config, {});
  if (requests.devices.empty() || requests.devices == std::vector<std::string>{""}) return {};
  return base::Fail(base::Error{
      base::Code::kUnsupported, "LegacyHookNotSupported",
      fmt::format(
          "the container asks for GPUs ({}) through the prestart hook, which would hide them "
          "from the container runtime; start it with the NVIDIA runtime (runtime class nvidia) "
          "or request CDI devices",
          cdi::SomeNames(requests.devices))});
}

int Usage() {
  std::fputs(
      "usage: nvidia-container-runtime-hook [-config FILE] [-debug] prestart|poststart|poststop\n",
      stderr);
  return 2;
}

}  // namespace

int RunPrestartHook(int argc, char** argv) {
  std::filesystem::path config_path;
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; ++at) {
    std::string_view flag = argv[at];
    flag.remove_prefix(flag.starts_with("--") ? 2 : 1);
    if (flag == "version") {
      fmt::print("NVIDIA Container Runtime Hook version {} (Pitcrew)\n", PITCREW_VERSION);
      return 0;
    }
    if (flag == "config" && at + 1 < argc) {
      config_path = argv[++at];
    } else if (flag.starts_with("config=")) {
      config_path = flag.substr(7);
    } else if (flag != "debug") {
      return Usage();
    }
  }
  if (at >= argc) return Usage();
  const std::string_view command = argv[at];
  if (command == "poststart" || command == "poststop") return 0;
  if (command != "prestart") return Usage();
  const auto status =
      CheckPrestart(config_path.empty() ? ConfigPath(ProgramFolder()) : config_path);
  if (status) return 0;
  std::fputs(
      ("nvidia-container-runtime-hook: " + OnOneLine(status.error().ToString()) + "\n").c_str(),
      stderr);
  return 1;
}

}  // namespace pitcrew::shim
