#include "node/validator/memory_module.h"

#include "host/kernel.h"
#include "kernel_modules/kernel_modules.h"

namespace pitcrew::node::validator {

base::Result<bool> LoadMemoryModule(const host::Root& host, const std::filesystem::path& proc) {
  TRY_ASSIGN(const auto majors, host::ReadCharacterMajors(proc));
  const bool driver = majors.contains("nvidia") || majors.contains("nvidia-frontend");
  if (!driver || majors.contains("nvidia-uvm")) return false;
  TRY_ASSIGN(const auto release, host::ReadKernelRelease(proc));
  TRY_ASSIGN(const auto modules, kernel_modules::Modules::Open(host, release));
  TRY(modules.Load("nvidia-uvm"));
  return true;
}

}  // namespace pitcrew::node::validator
