#include "host/device_links.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/log.h"
#include "host/root.h"

namespace pitcrew::host {
namespace {

// "../nvidiactl" and "/dev/nvidiactl" both name nvidiactl.
bool PointsTo(const std::string& link_target, const std::filesystem::path& wanted,
              const std::string& name) {
  return link_target == wanted.string() || link_target == "../" + name;
}

base::Status ReplaceLink(const std::filesystem::path& link, const std::filesystem::path& target) {
  const auto fresh =
      link.parent_path() / fmt::format(".{}.{}", link.filename().string(), ::getpid());
  ::unlink(fresh.c_str());
  if (::symlink(target.c_str(), fresh.c_str()) != 0 || ::rename(fresh.c_str(), link.c_str()) != 0) {
    const int saved = errno;
    ::unlink(fresh.c_str());
    return base::Fail(base::FromErrno(saved, fmt::format("link {}", link.string())));
  }
  return {};
}

}  // namespace

base::Status EnsureControlDevices(const std::filesystem::path& dev,
                                  const std::map<std::string, std::uint32_t>& majors) {
  TRY_ASSIGN(const auto wanted, NvidiaControlDevices(majors));
  for (const auto& device : wanted) {
    TRY(EnsureCharacterDevice(dev / device.name, device.number));
  }
  return {};
}

base::Result<int> LinkDevices(const std::filesystem::path& dev,
                              const std::filesystem::path& target_folder,
                              const std::filesystem::path& links) {
  TRY_ASSIGN(const auto devices, ListNvidiaDevices(dev));
  std::error_code error;
  std::filesystem::create_directories(links, error);
  if (error) {
    return base::Fail(
        base::FromErrno(error.value(), fmt::format("make folder {}", links.string())));
  }
  int right = 0;
  for (const auto& device : devices) {
    const auto link = links / device.number.ToString();
    const auto target = target_folder / device.name;
    const auto present = ReadLink(link);
    if (!present || !PointsTo(*present, target, device.name)) {
      if (present) {
        base::LogInfo("A stale device link is corrected",
                      {{"link", link.string()}, {"was", *present}, {"is", target.string()}});
      }
      TRY(ReplaceLink(link, target));
    }
    ++right;
  }
  return right;
}

}  // namespace pitcrew::host
