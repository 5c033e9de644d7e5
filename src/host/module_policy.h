// Which modules the kernel lets in: Secure Boot, lockdown and signatures.
#pragma once

#include <filesystem>
#include <string>

#include "base/observed.h"

namespace pitcrew::host {

struct ModulePolicy {
  // The firmware starts signed programs only. Absent: no UEFI, or one that does not know it.
  base::Observed<bool> secure_boot = base::Observed<bool>::Missing();
  // "none", "integrity" or "confidentiality". Absent: a kernel without lockdown, or securityfs is
  // not mounted.
  base::Observed<std::string> lockdown = base::Observed<std::string>::Missing();
  // module.sig_enforce. Absent: a kernel that checks no signatures.
  base::Observed<bool> signatures = base::Observed<bool>::Missing();

  // Modules without a signature that the kernel trusts are refused, for all that was seen.
  [[nodiscard]] bool refuses_unsigned() const;
};

// `sys` with efivarfs and securityfs mounted in it, as far as the node has them.
ModulePolicy ReadModulePolicy(const std::filesystem::path& sys = "/sys");

}  // namespace pitcrew::host
