#include "node/driver_container/run_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "base/strings.h"
#include "host/root.h"
#include "node/validations/status_folder.h"

namespace pitcrew::node::driver_container {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPidFile = "nvidia-driver.pid";
constexpr const char* kDigestFile = "nvidia-driver.state";
constexpr const char* kHookFolder = "run/kernel/postinst.d";
constexpr const char* kHook = "update-nvidia-driver";

fs::path Validation(const Places& places, const char* name) {
  return places.run / "validations" / name;
}

base::Status RemoveFile(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  return error ? base::Status(base::Fail(base::FromErrno(error.value(), "remove " + file.string())))
               : base::Status();
}

}  // namespace

base::Result<RunFiles> RunFiles::Take(const Places& places) {
  std::error_code error;
  fs::create_directories(places.run / "validations", error);
  if (error) return base::Fail(base::FromErrno(error.value(), "make " + places.run.string()));
  const fs::path file = places.run / kPidFile;
  base::FileDescriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.valid()) return base::Fail(base::FromErrno(errno, "open " + file.string()));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return base::Fail(base::Error{
        base::Code::kExists, "DriverContainerRunning",
        fmt::format("another driver container of this node runs (it holds {}); it has to end first",
                    file.string())});
  }
  const std::string number = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.get(), 0) != 0 ||
      ::write(lock.get(), number.data(), number.size()) != static_cast<ssize_t>(number.size())) {
    return base::Fail(base::FromErrno(errno, "write " + file.string()));
  }
  return RunFiles(places, std::move(lock));
}

base::Status RunFiles::SetNotReady() {
  TRY(RemoveFile(Validation(places_, validations::kDriverContainerReady)));
  return base::WriteFileAtomically(Validation(places_, validations::kDriverDaemonsStatus),
                                   "NotReady\n");
}

base::Status RunFiles::SetReady() {
  return base::WriteFileAtomically(Validation(places_, validations::kDriverDaemonsStatus),
                                   "Ready\n");
}

base::Status RunFiles::RemoveReadiness() {
  TRY(RemoveFile(Validation(places_, validations::kDriverContainerReady)));
  return RemoveFile(Validation(places_, validations::kDriverDaemonsStatus));
}

base::Result<std::string> RunFiles::ReadDigest() const {
  const auto text = base::ReadFile(places_.run / kDigestFile);
  if (text) return std::string(base::Trim(*text));
  if (text.error().code == base::Code::kNotFound) return std::string();
  return base::Fail(text.error());
}

base::Status RunFiles::StoreDigest(const std::string& digest) {
  return base::WriteFileAtomically(places_.run / kDigestFile, digest + "\n");
}

base::Status RunFiles::ForgetDigest() { return RemoveFile(places_.run / kDigestFile); }

base::Status RunFiles::InstallKernelHook() {
  const fs::path folder = places_.root / kHookFolder;
  TRY_ASSIGN(const bool there, host::IsDirectory(folder));
  if (!there) return {};
  constexpr mode_t kProgram = 0755;
  return base::WriteFileAtomically(
      folder / kHook,
      fmt::format("#!/bin/sh\n# The kernel that was just installed: $1.\n"
                  "exec chroot '{}' nvidia-driver update --kernel \"$1\"\n",
                  (places_.run / "driver").string()),
      kProgram);
}

base::Status RunFiles::Remove() {
  TRY(RemoveReadiness());
  TRY(RemoveFile(places_.root / kHookFolder / kHook));
  return RemoveFile(places_.run / kPidFile);
}

}  // namespace pitcrew::node::driver_container
