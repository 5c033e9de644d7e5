#include "host/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "base/error.h"

namespace pitcrew::host {

base::Result<Folder> Folder::Open(const std::filesystem::path& path) {
  base::FileDescriptor folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return base::Fail(base::FromErrno(errno, "open " + path.string()));
  return Folder(path, std::move(folder));
}

base::Result<std::string> Folder::Read(const std::filesystem::path& inside) const {
  const auto failed = [&] {
    return base::Fail(base::FromErrno(errno, "read " + (path_ / inside).string()));
  };
  const base::FileDescriptor file(::openat(folder_.get(), inside.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return failed();
  std::string content;
  std::array<char, 4096> buffer;  // an attribute of sysfs is no longer
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count == 0) return content;
    if (count > 0) {
      content.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      return failed();
    }
  }
}

base::Result<std::string> Folder::Link(const std::filesystem::path& inside) const {
  std::array<char, PATH_MAX> target;
  const ssize_t size = ::readlinkat(folder_.get(), inside.c_str(), target.data(), target.size());
  if (size < 0) {
    return base::Fail(base::FromErrno(errno, "read link " + (path_ / inside).string()));
  }
  return std::string(target.data(), static_cast<std::size_t>(size));
}

}  // namespace pitcrew::host
