#include "host/module_policy.h"

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::host {
namespace {

// EFI_GLOBAL_VARIABLE of the UEFI specification.
constexpr const char* kSecureBoot =
    "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

template <class T, class Parse>
base::Observed<T> Read(const std::filesystem::path& file, Parse parse) {
  const auto text = base::ReadFile(file);
  if (!text) return base::Observed<T>::From(base::Fail(text.error()));
  return base::Observed<T>::Present(parse(*text));
}

// The one in brackets: "none [integrity] confidentiality".
std::string ChosenOf(std::string_view text) {
  const auto begin = text.find('[');
  const auto end = text.find(']');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    return std::string(base::Trim(text));
  }
  return std::string(text.substr(begin + 1, end - begin - 1));
}

}  // namespace

bool ModulePolicy::refuses_unsigned() const {
  const auto* mode = lockdown.value();
  const auto* enforced = signatures.value();
  return (mode != nullptr && *mode != "none") || (enforced != nullptr && *enforced);
}

ModulePolicy ReadModulePolicy(const std::filesystem::path& sys) {
  // efivarfs puts four bytes of attributes before the value.
  constexpr std::size_t kValue = 4;
  return {.secure_boot = Read<bool>(
              sys / kSecureBoot,
              [](std::string_view bytes) { return bytes.size() > kValue && bytes[kValue] == 1; }),
          .lockdown = Read<std::string>(sys / "kernel/security/lockdown", ChosenOf),
          .signatures = Read<bool>(sys / "module/module/parameters/sig_enforce",
                                   [](std::string_view text) { return base::Trim(text) == "Y"; })};
}

}  // namespace pitcrew::host
