// sysfs-expectations [--root DIR] [--set NAME=VALUE]... FILE...: tries the files against DIR/sys
// and DIR/dev. Exit code 1 when something is not as expected, 2 for malformed input.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "simulation/sysfs/expectations/expectations.h"

namespace sysfs = pitcrew::simulation::sysfs;

int main(int argc, char** argv) {
  CLI::App app("Tries what writes to sysfs do", "sysfs-expectations");
  std::string root = "/";
  std::vector<std::string> settings;
  std::vector<std::string> files;
  app.add_option("--root", root, "what has sys/ and dev/")->capture_default_str();
  app.add_option("--set", settings, "NAME=VALUE: what {NAME} means")->allow_extra_args(false);
  app.add_option("FILE", files, "expectations")->required();
  CLI11_PARSE(app, argc, argv);
  std::map<std::string, std::string> names;
  for (const auto& setting : settings) {
    names[setting.substr(0, setting.find('='))] = setting.substr(setting.find('=') + 1);
  }
  sysfs::FileSubject subject(root);
  int exit_code = 0;
  for (const auto& file : files) {
    const auto outcome = sysfs::TryExpectations(file, names, subject);
    if (!outcome) {
      fmt::print(stderr, "sysfs-expectations: {}\n", outcome.error().message);
      return 2;
    }
    for (const auto& failure : outcome->failures) fmt::print("{}\n", failure);
    if (!outcome->failures.empty()) exit_code = 1;
    fmt::print("{}: {} steps, {} not as expected\n", file, outcome->steps,
               outcome->failures.size());
  }
  return exit_code;
}
