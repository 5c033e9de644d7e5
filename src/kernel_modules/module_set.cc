#include "kernel_modules/module_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "base/log.h"
#include "base/strings.h"
#include "host/kernel.h"
#include "kernel_modules/kernel_modules.h"

namespace pitcrew::kernel_modules {
namespace {

bool MayHoldSilently(Members members, const LoadedModules& loaded, std::string_view name,
                     const std::vector<std::string>& holders) {
  return std::ranges::any_of(members, [&](const Member& member) {
    return member.looks_up == name && loaded.contains(member.name) &&
           std::ranges::find(holders, member.name) == holders.end();
  });
}

// What became of the modules that had gone before another one stayed.
std::string LoadAgain(const std::vector<std::string>& gone, const LoadSteps& steps) {
  std::vector<std::string> back;
  std::vector<std::string> lost;
  for (const auto& module : std::views::reverse(gone)) {
    if (const auto loaded = steps.load(module)) {
      back.push_back(module);
    } else {
      base::LogWarning("A kernel module could not be loaded again", loaded.error());
      lost.push_back(fmt::format("{} ({})", module, loaded.error().message));
    }
  }
  std::string text;
  if (!back.empty()) text += fmt::format("; loaded again: {}", base::Join(back, ", "));
  if (!lost.empty()) {
    text += fmt::format("; gone, and could not be loaded again: {}", base::Join(lost, ", "));
  }
  return text;
}

}  // namespace

base::Result<LoadedModules> ReadLoaded(Members members, const std::filesystem::path& sys) {
  LoadedModules loaded;
  for (const Member& member : members) {
    const auto references = host::ReadModuleReferences(member.name, sys);
    if (references.is_unknown()) return base::Fail(*references.error());
    if (references.is_absent()) continue;
    TRY_ASSIGN(auto holders, ReadHolders(member.name, sys));
    loaded[std::string(member.name)] = {*references.value(), std::move(holders)};
  }
  return loaded;
}

std::vector<std::string> UsesFromOutside(Members members, const LoadedModules& loaded) {
  std::vector<std::string> uses;
  for (const auto& [name, module] : loaded) {
    for (const auto& holder : module.holders) {
      if (!loaded.contains(holder)) uses.push_back(fmt::format("{} is held by {}", name, holder));
    }
    if (module.references > module.holders.size() &&
        !MayHoldSilently(members, loaded, name, module.holders)) {
      uses.push_back(fmt::format("{} has {} uses by programs", name,
                                 module.references - module.holders.size()));
    }
  }
  return uses;
}

base::Status TakeOut(Members members, const LoadedModules& loaded, const LoadSteps& steps) {
  std::vector<std::string> gone;
  for (const Member& member : members) {
    if (!loaded.contains(member.name)) continue;
    const std::string name(member.name);
    const base::Status unloaded = steps.unload(name);
    if (unloaded) {
      base::LogInfo("Kernel module unloaded", {{"module", name}});
      gone.push_back(name);
      continue;
    }
    // Somebody came in between: without some of its modules the rest is of no use to anybody.
    base::Error error = unloaded.error();
    error.message += LoadAgain(gone, steps);
    return base::Fail(std::move(error));
  }
  return {};
}

}  // namespace pitcrew::kernel_modules
