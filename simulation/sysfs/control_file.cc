#include "simulation/sysfs/control_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_descriptor.h"

namespace pitcrew::simulation::sysfs {
namespace {

constexpr const char* kControl = "simulation/control";

}  // namespace

bool IsSimulated(const std::filesystem::path& sys) {
  std::error_code error;
  return std::filesystem::exists(sys / kControl, error);
}

base::Status WriteControl(const std::filesystem::path& sys, const std::string& line) {
  const base::FileDescriptor file(::open((sys / kControl).c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) {
    return base::Fail(
        base::NotFound("NoSimulatedSysfs",
                       sys.string() + " is no simulated sysfs; pitcrew-simulate sysfs makes one"));
  }
  if (::write(file.get(), line.data(), line.size()) >= 0) return {};
  if (errno == EINVAL) {
    return base::Fail(base::Invalid("NoSuchCommand", "\"" + line + "\" is no command"));
  }
  return base::Fail(base::FromErrno(errno, line));
}

}  // namespace pitcrew::simulation::sysfs
