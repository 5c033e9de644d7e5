// Writing attributes of sysfs. Each write is one command to the kernel, whose answer is an errno.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::host {

// Writes `value` in one write(2), to a file that exists. `action` names what is done, for example
// "bind 0000:65:00.0 to vfio-pci". By errno:
//   EBUSY            kConflict "DeviceBusy"           somebody uses the device, or it has that
//   state ENODEV, ENXIO    kUnsupported "DeviceRefused"     the driver does not take this device
//   EINVAL, ERANGE   kInvalid "ValueRefused"          the kernel does not take this value now
//   ENOSPC           kUnavailable "NoRoomLeft"        all instances are taken
//   EACCES, EPERM, EROFS   kDenied "SysfsNotWritable" missing rights, or a read-only /sys
//   ENOENT           kNotFound "NoSuchAttribute"      no such device, or the kernel lacks the
//   feature
base::Status WriteAttribute(const std::filesystem::path& file, std::string_view value,
                            std::string_view action);

// Content without white space at its ends. kNotFound when missing.
base::Result<std::string> ReadAttribute(const std::filesystem::path& file);

}  // namespace pitcrew::host
