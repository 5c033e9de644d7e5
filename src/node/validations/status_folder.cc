#include "node/validations/status_folder.h"

#include <fmt/format.h>

#include <system_error>

#include "base/file.h"
#include "base/strings.h"
#include "codec/yaml.h"
#include "host/root.h"
#include "io/file_watcher.h"

namespace pitcrew::node::validations {

base::Status StatusFolder::Prepare(bool empty) const {
  std::error_code error;
  if (empty) {
    // The folder itself is a mount point in a pod and stays.
    const auto names = host::ListFolder(path_);
    if (!names && names.error().code != base::Code::kNotFound) return base::Fail(names.error());
    for (const auto& name : names.value_or(std::vector<std::string>())) {
      std::filesystem::remove_all(path_ / name, error);
      if (error) {
        return base::Fail(
            base::FromErrno(error.value(), fmt::format("remove {}", (path_ / name).string())));
      }
    }
  }
  std::filesystem::create_directories(path_, error);
  if (error) {
    return base::Fail(
        base::FromErrno(error.value(), fmt::format("make folder {}", path_.string())));
  }
  return {};
}

base::Status StatusFolder::Write(std::string_view name, std::string_view content) const {
  return base::WriteFileAtomically(path_ / name, content, content.empty() ? 0644 : 0600);
}

base::Status StatusFolder::Remove(std::string_view name) const {
  std::error_code error;
  std::filesystem::remove(path_ / name, error);
  if (!error) return {};
  return base::Fail(
      base::FromErrno(error.value(), fmt::format("remove {}", (path_ / name).string())));
}

base::Result<bool> StatusFolder::Has(std::string_view name) const {
  return host::Exists(path_ / name);
}

base::Status StatusFolder::Await(
    std::string_view name, const io::StopToken& stop,
    std::optional<std::chrono::steady_clock::time_point> deadline) const {
  const auto there = io::WaitForFiles({path_}, [&] { return Has(name); }, stop, deadline);
  if (there || there.error().code != base::Code::kTimeout) return there;
  return base::Fail(
      base::Error{base::Code::kTimeout, "NotValidated",
                  fmt::format("{} did not come in time: the step before this one is not done",
                              (path_ / name).string())});
}

std::string DriverReadyContent(const host::DriverRoot& driver) {
  return fmt::format(
      "IS_HOST_DRIVER={}\nNVIDIA_DRIVER_ROOT={}\nDRIVER_ROOT_CTR_PATH={}\nNVIDIA_DEV_ROOT={}\n"
      "DEV_ROOT_CTR_PATH={}\n",
      driver.is_host, driver.driver_root, driver.driver_root_container, driver.device_root,
      driver.device_root_container);
}

base::Result<std::map<std::string, bool>> ParseDriverContainerReady(std::string_view text) {
  std::map<std::string, bool> flags;
  if (base::Trim(text).empty()) return flags;
  TRY_ASSIGN(const auto json, codec::ParseYaml(text, kDriverContainerReady));
  if (json.is_null()) return flags;
  const auto malformed = [](std::string_view what) {
    return base::Fail(
        base::Invalid("MalformedStatusFile",
                      fmt::format("{}: {} is not true or false", kDriverContainerReady, what)));
  };
  if (!json.is_object()) return malformed("the content");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_boolean()) return malformed(key);
    flags[key] = value.get<bool>();
  }
  return flags;
}

}  // namespace pitcrew::node::validations
