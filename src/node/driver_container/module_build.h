// Kernel modules made from sources, for one kernel: with its headers and its compiler, signed,
// installed in this image and indexed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/stop.h"
#include "node/driver_container/facts.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

class ModuleBuild {
 public:
  // Both have to outlive it.
  ModuleBuild(const Options& options, const Facts& facts, io::StopToken stop)
      : options_(options), facts_(facts), stop_(std::move(stop)) {}

  // To where modules' sources look for them, which is one place only.
  base::Status LinkKernelHeaders() const;

  // Calls make in the folder of the sources, with these words besides those of every build. The
  // modules that it has made (*.ko); kInternal "ModulesNotBuilt" when `module` is not among them.
  base::Result<std::vector<std::filesystem::path>> Compile(const std::filesystem::path& sources,
                                                           const std::vector<std::string>& words,
                                                           const std::string& module) const;

  // With the key that was given; without one they stay as they are.
  base::Status Sign(const std::vector<std::filesystem::path>& modules) const;

  base::Status Install(const std::vector<std::filesystem::path>& modules) const;

 private:
  [[nodiscard]] std::optional<std::string> FindKernelCompiler() const;
  [[nodiscard]] std::filesystem::path ModulesFolder() const;

  const Options& options_;
  const Facts& facts_;
  io::StopToken stop_;
};

}  // namespace pitcrew::node::driver_container
