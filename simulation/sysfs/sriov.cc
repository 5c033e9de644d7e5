#include "simulation/sysfs/sriov.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/strings.h"

namespace pitcrew::simulation::sysfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStub = "pci-pf-stub";

base::Status Write(const fs::path& path, const std::string& value) {
  const base::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.valid() && ::write(file.get(), value.data(), value.size()) >= 0) return {};
  return base::Fail(base::FromErrno(errno, "write to " + path.string()));
}

std::string Read(const fs::path& path) {
  const auto text = base::ReadFile(path);
  return text ? std::string(base::Trim(*text)) : "";
}

std::string DriverOf(const fs::path& device) {
  std::error_code error;
  return fs::read_symlink(device / "driver", error).filename();
}

// From whichever driver it has to the one that may take it now.
base::Status Rebind(const fs::path& sys, const std::string& address, const std::string& only) {
  const fs::path device = sys / "bus/pci/devices" / address;
  TRY(Write(device / "driver_override", only + "\n"));
  if (const std::string driver = DriverOf(device); !driver.empty()) {
    TRY(Write(sys / "bus/pci/drivers" / driver / "unbind", address));
  }
  return Write(sys / "bus/pci/drivers_probe", address);
}

}  // namespace

base::Result<std::vector<std::string>> SriovGpus(const fs::path& sys) {
  std::vector<std::string> addresses;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(sys / "bus/pci/devices", error)) {
    const bool able = base::ParseUnsigned(Read(entry.path() / "sriov_totalvfs")).value_or(0) != 0;
    if (able && Read(entry.path() / "vendor") == "0x10de") {
      addresses.push_back(entry.path().filename());
    }
  }
  if (error) return base::Fail(base::FromErrno(error.value(), "list " + sys.string()));
  std::ranges::sort(addresses);
  return addresses;
}

base::Status SetVirtualFunctions(const fs::path& sys, const std::string& address, bool present) {
  const fs::path device = sys / "bus/pci/devices" / address;
  const std::string total = Read(device / "sriov_totalvfs");
  if (total.empty() || total == "0") {
    return base::Fail(base::NotFound(
        "NoSriovGpu",
        address + " is no GPU with virtual functions; sriov-manage -e ALL takes those that are"));
  }
  const std::string wanted = present ? total : "0";
  if (Read(device / "sriov_numvfs") == wanted) return {};
  TRY(Rebind(sys, address, kStub));
  const auto made = Write(device / "sriov_numvfs", wanted);
  TRY(Rebind(sys, address, ""));
  return made;
}

}  // namespace pitcrew::simulation::sysfs
