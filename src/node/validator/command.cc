#include "node/validator/command.h"

#include <fmt/format.h>

#include <csignal>
#include <set>
#include <string_view>

#include "base/clock.h"
#include "base/command_line.h"
#include "base/log.h"
#include "host/root.h"
#include "io/file_watcher.h"
#include "node/qualification/command.h"
#include "node/validator/components.h"
#include "node/validator/options.h"

namespace pitcrew::node::validator {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

int Fail(std::string_view message, const base::Error& error, int code) {
  base::LogError(message, error);
  return code;
}

base::Status Validate(const Options& options, const io::StopToken& stop) {
  Cluster cluster(options.kubeconfig);
  if (options.component == "metrics") return ExportNodeStatus(options, cluster, stop);
  TRY(StatusFolder(options.output_folder).Prepare(options.cleanup_all));
  if (options.component == "driver") return ValidateDriver(options, cluster, stop);
  if (options.component == "toolkit") return ValidateToolkit(options, stop);
  if (options.component == "cuda") return ValidateCuda(options, cluster, stop);
  if (options.component == "plugin") return ValidatePlugin(options, cluster, stop);
  if (options.component == "vfio-pci") return ValidateVfioPci(options, cluster, stop);
  if (options.component == "vgpu-manager") return ValidateVgpuManager(options, cluster, stop);
  if (options.component == "vgpu-devices") return ValidateVgpuDevices(options, cluster, stop);
  if (options.component == "mofed") return ValidateMofed(options, cluster, stop);
  if (options.component == "cc-manager") return ValidateCcManager(options, cluster, stop);
  return ValidateModule(options, options.component, stop);
}

// Whether all of the files are there, or any of them.
enum class Quantity { kAll, kAny };

struct Wait {
  std::vector<std::string> files;
  Quantity quantity = Quantity::kAll;
  base::Deadline deadline{};
};

base::Status WaitFor(const Wait& wait, const io::StopToken& stop) {
  std::set<std::filesystem::path> folders;
  for (const auto& file : wait.files) {
    folders.insert(std::filesystem::absolute(file).parent_path());
  }
  std::string missing;
  const auto waited = io::WaitForFiles(
      {folders.begin(), folders.end()},
      [&]() -> base::Result<bool> {
        std::string first_missing;
        for (const auto& file : wait.files) {
          TRY_ASSIGN(const bool there, host::Exists(file));
          if (there && wait.quantity == Quantity::kAny) return true;
          if (!there && first_missing.empty()) first_missing = file;
        }
        if (first_missing.empty()) return true;
        if (missing != first_missing) base::LogInfo("Waiting", {{"file", first_missing}});
        missing = first_missing;
        return false;
      },
      stop, wait.deadline);
  if (!waited && waited.error().code == base::Code::kTimeout) {
    return base::Fail(base::Error{base::Code::kTimeout, "FileMissing",
                                  fmt::format("{} did not appear in time", missing)});
  }
  return waited;
}

}  // namespace

int Command(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "qualify") {
    return qualification::Command(argc - 1, argv + 1);
  }
  const auto options = ReadOptions(argc, argv);
  if (!options) return Fail("Wrong usage", options.error(), kUsage);
  if (!*options) return 0;
  io::StopSource source;
  if (const auto set = source.StopOnSignals({SIGTERM, SIGINT, SIGHUP, SIGQUIT}); !set) {
    return Fail("Signals cannot be received", set.error(), kFailure);
  }
  const auto valid = Validate(**options, source.token());
  if (valid) return 0;
  return Fail(fmt::format("The component {} is not valid", (*options)->component), valid.error(),
              kFailure);
}

int WaitCommand(int argc, char** argv) {
  Wait wait;
  std::optional<std::string> timeout;
  std::optional<bool> any;
  base::CommandLine line("wait", "Waits until files exist.",
                         std::string("wait ") + PITCREW_VERSION);
  line.AddWords("FILE", "files to wait for", &wait.files);
  line.Add({"any", "", "end as soon as one of the files exists"}, &any);
  line.Add({"timeout", "", "give up after this time, for example 5m"}, &timeout);
  const auto go_on = line.Parse(argc, argv);
  if (!go_on) return Fail("Wrong usage", go_on.error(), kUsage);
  if (!*go_on) return 0;
  if (wait.files.empty()) {
    return Fail("Wrong usage", base::Invalid("BadUsage", "name at least one file"), kUsage);
  }
  if (any.value_or(false)) wait.quantity = Quantity::kAny;
  if (timeout) {
    const auto duration = base::ParseGoDuration(*timeout);
    if (!duration) return Fail("Wrong usage", duration.error(), kUsage);
    wait.deadline = base::Deadline::After(*duration);
  }
  io::StopSource source;
  if (const auto set = source.StopOnSignals({SIGTERM, SIGINT}); !set) {
    return Fail("Signals cannot be received", set.error(), kFailure);
  }
  const auto waited = WaitFor(wait, source.token());
  return waited ? 0 : Fail("The wait ended", waited.error(), kFailure);
}

}  // namespace pitcrew::node::validator
