#include "simulation/driver/mounts.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "base/file.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

base::Status Mount(const char* source, const fs::path& target, const char* type,
                   unsigned long flags, const char* options = nullptr) {
  if (::mount(source, target.c_str(), type, flags, options) == 0) return {};
  return base::Fail(base::FromErrno(errno, "mount on " + target.string()));
}

// mountinfo writes white space and backslashes as three octal digits.
std::string Unescape(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      result += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

base::Result<std::vector<std::string>> MountsBelow(const fs::path& path) {
  std::ifstream file("/proc/self/mountinfo");
  if (!file) return base::Fail(base::Internal("MountsUnreadable", "cannot read mountinfo"));
  const std::string inside = path.string() + "/";
  std::vector<std::string> mounts;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    for (int i = 0; i < 5; ++i) words >> word;
    const std::string point = Unescape(word);
    if (point == path || point.starts_with(inside)) mounts.push_back(point);
  }
  return mounts;
}

base::Status UnmountAll(const fs::path& path) {
  while (true) {
    TRY_ASSIGN(const auto mounts, MountsBelow(path));
    if (mounts.empty()) return {};
    // Detaching the outermost takes along what is below it.
    if (::umount2(mounts.front().c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
      return base::Fail(base::FromErrno(errno, "unmount " + mounts.front()));
    }
  }
}

base::Status BindFile(const fs::path& source, const fs::path& target) {
  std::error_code error;
  if (!fs::exists(target, error)) TRY(base::WriteFileAtomically(target, ""));
  TRY(UnmountAll(target));
  return Mount(source.c_str(), target, nullptr, MS_BIND);
}

base::Status MountEmpty(const fs::path& target) {
  return Mount("tmpfs", target, "tmpfs", 0, "size=1m,mode=755");
}

base::Status ShowKernelModule(const fs::path& sys_module, const std::string& name,
                              const std::string& version) {
  std::error_code error;
  if (fs::exists(sys_module / name / "refcnt", error)) return {};
  // The overlay keeps its lower folder alive after the folder itself is unmounted.
  const fs::path staging = fs::temp_directory_path() / ("pitcrew-module-" + name);
  fs::create_directories(staging, error);
  TRY(Mount("tmpfs", staging, "tmpfs", 0, "size=64k,mode=755"));
  const fs::path module = staging / "lower" / name;
  fs::create_directories(module, error);
  base::Status status = base::WriteFileAtomically(module / "refcnt", "0\n", 0444);
  if (status) status = base::WriteFileAtomically(module / "initstate", "live\n", 0444);
  if (status) status = base::WriteFileAtomically(module / "version", version + "\n", 0444);
  if (status) {
    const std::string options =
        "lowerdir=" + (staging / "lower").string() + ":" + sys_module.string();
    status = Mount("overlay", sys_module, "overlay", MS_RDONLY, options.c_str());
  }
  ::umount2(staging.c_str(), MNT_DETACH);
  fs::remove(staging, error);
  return status;
}

void KeepSubmountsOfSysOut() {
  // Fails where /sys is no mount point of its own: then there is nothing to keep out.
  (void)::mount(nullptr, "/sys", nullptr, MS_UNBINDABLE | MS_REC, nullptr);
  (void)::mount(nullptr, "/sys", nullptr, MS_PRIVATE, nullptr);
}

base::Status MountRootAt(const fs::path& target) {
  std::error_code error;
  fs::create_directories(target, error);
  TRY(UnmountAll(target));
  return Mount("/", target, nullptr, MS_BIND | MS_REC);
}

}  // namespace pitcrew::simulation
