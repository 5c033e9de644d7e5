#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file_descriptor.h"
#include "simulation/sysfs/expectations/expectations.h"

namespace pitcrew::simulation::sysfs {

Errno FileSubject::Write(const std::string& path, const std::string& value) {
  const base::FileDescriptor file(::open((root_ / path).c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) return errno;
  return ::write(file.get(), value.data(), value.size()) < 0 ? errno : 0;
}

std::expected<std::string, Errno> FileSubject::Read(const std::string& path) {
  const base::FileDescriptor file(::open((root_ / path).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::unexpected(errno);
  std::string text;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0) return std::unexpected(errno);
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

std::expected<std::string, Errno> FileSubject::ReadLink(const std::string& path) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::readlink((root_ / path).c_str(), buffer.data(), buffer.size());
  if (count < 0) return std::unexpected(errno);
  return std::string(buffer.data(), static_cast<std::size_t>(count));
}

std::expected<std::vector<std::string>, Errno> FileSubject::List(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root_ / path, error)) {
    names.push_back(entry.path().filename());
  }
  if (error) return std::unexpected(error.value());
  std::ranges::sort(names);
  return names;
}

Errno FileSubject::CreateFile(const std::string& path) {
  const base::FileDescriptor file(
      ::open((root_ / path).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  return file.valid() ? 0 : errno;
}

Errno FileSubject::RemoveFile(const std::string& path) {
  return ::unlink((root_ / path).c_str()) == 0 ? 0 : errno;
}

}  // namespace pitcrew::simulation::sysfs
