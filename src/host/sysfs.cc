#include "host/sysfs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/strings.h"

namespace pitcrew::host {
namespace {

struct Meaning {
  base::Code code;
  const char* reason;
  const char* hint;
};

Meaning MeaningOf(int error_number) {
  switch (error_number) {
    case EBUSY:
      return {base::Code::kConflict, "DeviceBusy", "; end what uses it first"};
    case ENODEV:
    case ENXIO:
      return {base::Code::kUnsupported, "DeviceRefused", "; the driver does not take this device"};
    case EINVAL:
    case ERANGE:
      return {base::Code::kInvalid, "ValueRefused", ""};
    case ENOSPC:
      return {base::Code::kUnavailable, "NoRoomLeft", "; all that the device offers is taken"};
    case EACCES:
    case EPERM:
    case EROFS:
      return {base::Code::kDenied, "SysfsNotWritable",
              "; this needs a privileged container and a writable /sys"};
    case ENOENT:
      return {base::Code::kNotFound, "NoSuchAttribute",
              "; the device is gone, or the kernel lacks the feature"};
    default:
      return {base::Code::kInternal, "SysfsWriteFailed", ""};
  }
}

base::Status Refused(int error_number, std::string_view action, const std::filesystem::path& file) {
  const auto meaning = MeaningOf(error_number);
  return base::Fail(base::Error{meaning.code, meaning.reason,
                                fmt::format("cannot {} ({}): {}{}", action, file.string(),
                                            std::strerror(error_number), meaning.hint)});
}

}  // namespace

base::Status WriteAttribute(const std::filesystem::path& file, std::string_view value,
                            std::string_view action) {
  const base::FileDescriptor attribute(::open(file.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!attribute.valid()) return Refused(errno, action, file);
  ssize_t written = 0;
  do {
    written = ::write(attribute.get(), value.data(), value.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) return Refused(errno, action, file);
  // The kernel takes an attribute whole or not at all.
  if (static_cast<std::size_t>(written) != value.size()) return Refused(EIO, action, file);
  return {};
}

base::Result<std::string> ReadAttribute(const std::filesystem::path& file) {
  TRY_ASSIGN(const auto content, base::ReadFile(file));
  return std::string(base::Trim(content));
}

}  // namespace pitcrew::host
