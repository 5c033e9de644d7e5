#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/file_descriptor.h"

namespace pitcrew::base {

Result<std::string> ReadFile(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return Fail(FromErrno(errno, "read " + path.string()));
  std::string content;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count == 0) return content;
    if (count < 0) {
      if (errno == EINTR) continue;
      return Fail(FromErrno(errno, "read " + path.string()));
    }
    content.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

Status WriteFileAtomically(const std::filesystem::path& path, std::string_view content,
                           mode_t mode) {
  const std::string what = "write " + path.string();
  std::error_code problem;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), problem);
  if (problem) return Fail(FromErrno(problem.value(), what));
  // Hidden, so that whoever reads all files of the folder does not take it for one of them.
  std::string temporary =
      (path.parent_path() / ("." + path.filename().string() + ".XXXXXX")).string();
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) return Fail(FromErrno(errno, what));
  const auto give_up = [&](int error_number) -> Status {
    ::unlink(temporary.c_str());
    return Fail(FromErrno(error_number, what));
  };
  while (!content.empty()) {
    const ssize_t count = ::write(file.get(), content.data(), content.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return give_up(errno);
    }
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fchmod(file.get(), mode) != 0) return give_up(errno);
  if (::fsync(file.get()) != 0 && errno != EINVAL) return give_up(errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return give_up(errno);
  return {};
}

}  // namespace pitcrew::base
