// One static program, several names (container-toolkit.md 1): the name under which it was started
// picks what it is.
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "shim/cdi_hook.h"
#include "shim/prestart_hook.h"
#include "shim/runtime.h"

#ifdef __SANITIZE_ADDRESS__
// Hooks run inside containers, whose /proc the leak checker cannot read.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

namespace {

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace pitcrew::shim;
  // The kernel's note of the path that was executed, unless it was executed through a descriptor.
  const auto executed = static_cast<unsigned long>(::getauxval(AT_EXECFN));
  const char* path = executed != 0 ? reinterpret_cast<const char*>(executed) : "";
  std::string_view name = BaseName(path);
  if (!name.starts_with("nvidia-") && argc > 0) name = BaseName(argv[0]);
  if (name == "nvidia-container-runtime.cdi") return RunRuntime(argc, argv, "cdi");
  if (name == "nvidia-container-runtime.legacy") return RunRuntime(argc, argv, "legacy");
  if (name == "nvidia-container-runtime-hook" || name == "nvidia-container-toolkit") {
    return RunPrestartHook(argc, argv);
  }
  if (name == "nvidia-cdi-hook") return RunCdiHook(argc, argv);
  if (name == "nvidia-ctk") {
    if (argc > 1 && std::string_view(argv[1]) == "hook") return RunCdiHook(argc - 1, argv + 1);
    std::fputs(
        "nvidia-ctk: on the host only \"nvidia-ctk hook\" is installed; the other commands are "
        "in the toolkit's container\n",
        stderr);
    return 2;
  }
  return RunRuntime(argc, argv, "");
}
