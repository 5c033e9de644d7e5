#include "node/smi/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "node/smi/snapshot.h"
#include "node/smi/views.h"
#include "nvml/nvml.h"

namespace pitcrew::node::smi {
namespace {

struct Options {
  bool list = false;
  bool details = false;
  bool version = false;
  bool help_fields = false;
  std::string select;
  std::string query;
  std::string format = "csv";
  std::string compute_mode;
};

int ExitCodeFor(const base::Error& error) {
  if (error.reason == "NoSuchGpu") return 6;
  if (error.reason == "DriverNotLoaded") return 9;
  if (error.reason == "LibraryNotFound") return 12;
  if (error.reason == "GpuIsLost") return 15;
  if (error.reason == "NoPermission") return 4;
  return error.code == base::Code::kInvalid ? 2 : 255;
}

int Report(const base::Error& error) {
  if (error.reason == "DriverNotLoaded") {
    fmt::print("nvidia-smi couldn't communicate with the NVIDIA driver: {}\n", error.message);
  } else {
    fmt::print("{}\n", error.message);
  }
  return ExitCodeFor(error);
}

std::string LocalTime(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[64] = {};
  std::strftime(text, sizeof(text), format, &local);
  return text;
}

// The driver root of the container that this runs in, where the toolkit says so.
std::vector<std::filesystem::path> DriverRoots() {
  std::vector<std::filesystem::path> roots = {"/"};
  if (const char* root = std::getenv("DRIVER_ROOT_CTR_PATH"); root != nullptr && *root != 0) {
    roots.insert(roots.begin(), root);
  }
  return roots;
}

// The numbers are nvidia-smi's, too; 1 is what EXCLUSIVE_THREAD was.
std::optional<nvml::ComputeMode> ParseComputeMode(std::string_view text) {
  using nvml::ComputeMode;
  if (text == "0" || text == "DEFAULT") return ComputeMode::kDefault;
  if (text == "2" || text == "PROHIBITED") return ComputeMode::kProhibited;
  if (text == "1" || text == "EXCLUSIVE_THREAD" || text == "3" || text == "EXCLUSIVE_PROCESS") {
    return ComputeMode::kExclusiveProcess;
  }
  return std::nullopt;
}

base::Status SetComputeMode(nvml::Library& library, const Snapshot& snapshot,
                            const std::string& text) {
  const auto mode = ParseComputeMode(text);
  if (!mode) {
    return base::Fail(base::Invalid(
        "UnknownComputeMode",
        fmt::format("\"{}\" is no compute mode: use DEFAULT, PROHIBITED or EXCLUSIVE_PROCESS",
                    text)));
  }
  for (const auto& view : snapshot.gpus) {
    TRY(library.SetComputeMode(view.device.uuid, *mode));
    fmt::print("Set compute mode to {} for GPU {}.\n", text, view.device.pci.BusId());
  }
  fmt::print("All done.\n");
  return {};
}

base::Status Print(const Options& options, const Snapshot& snapshot) {
  if (!options.query.empty()) {
    TRY_ASSIGN(const auto format, ParseFormat(options.format));
    TRY_ASSIGN(const auto text,
               RenderQuery(snapshot, options.query, format, LocalTime("%Y/%m/%d %H:%M:%S")));
    fmt::print("{}", text);
  } else if (options.list) {
    fmt::print("{}", RenderList(snapshot));
  } else if (options.details) {
    fmt::print("{}", RenderDetails(snapshot, LocalTime("%a %b %e %H:%M:%S %Y")));
  } else {
    fmt::print("{}", RenderTable(snapshot, LocalTime("%a %b %e %H:%M:%S %Y")));
  }
  return {};
}

int Run(const Options& options) {
  if (options.help_fields) {
    for (const auto& field : QueryFields()) fmt::print("{}\n", field);
    return 0;
  }
  const auto library = nvml::Library::Open(DriverRoots());
  if (!library) return Report(library.error());
  auto snapshot = ReadSnapshot(**library);
  if (!snapshot) return Report(snapshot.error());
  if (options.version) {
    fmt::print("NVIDIA-SMI version  : {0}\nDRIVER version      : {0}\nCUDA Version        : {1}\n",
               snapshot->driver_version, snapshot->cuda_version);
    return 0;
  }
  if (const auto selected = Select(*snapshot, options.select); !selected) {
    return Report(selected.error());
  }
  if (!options.compute_mode.empty()) {
    const auto set = SetComputeMode(**library, *snapshot, options.compute_mode);
    return set ? 0 : Report(set.error());
  }
  if (const auto printed = Print(options, *snapshot); !printed) return Report(printed.error());
  // Shown as far as they could be; scripts learn of a GPU that could not.
  for (const auto& view : snapshot->gpus) {
    if (view.device.fault) return ExitCodeFor(*view.device.fault);
  }
  return 0;
}

int Parse(int argc, char** argv) {
  Options options;
  CLI::App app("Shows the node's GPUs", "nvidia-smi");
  app.add_flag("-L,--list-gpus", options.list, "one line per GPU and MIG device");
  app.add_flag("-q,--query", options.details, "what is known of each GPU");
  app.add_option("-i,--id", options.select, "only these: index, UUID, serial or PCI bus id");
  app.add_option("--query-gpu", options.query, "these fields, as a table");
  app.add_option("--format", options.format, "csv[,noheader][,nounits]");
  app.add_option("-c,--compute-mode", options.compute_mode,
                 "who may use them: DEFAULT, PROHIBITED or EXCLUSIVE_PROCESS (0, 2, 3)");
  app.add_flag("--help-query-gpu", options.help_fields, "the fields of --query-gpu");
  app.add_flag("--version", options.version, "versions of driver and CUDA");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return Run(options);
}

}  // namespace

int Command(int argc, char** argv) {
  try {
    return Parse(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "nvidia-smi: {}\n", error.what());
    return 255;
  }
}

}  // namespace pitcrew::node::smi
