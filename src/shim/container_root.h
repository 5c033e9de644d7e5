// A container's root file system, seen from the host while the container may have filled it with
// anything: every path is resolved by the kernel inside the root (openat2 with RESOLVE_IN_ROOT), so
// no link leads out of it; nothing but regular files is ever read, and none that the kernel makes
// up (/proc, /sys): to read one can tell of the host, wait for ever or have effects.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::shim {

// The link of /proc that leads to what `fd` is open on.
std::string FdPath(int fd);

// A folder of a container, opened once: what lies in it is found without walking the whole path
// again for each name. Nothing that it does follows a link.
class ContainerFolder {
 public:
  struct Entry {
    std::string_view name;
    bool is_link = false;
  };
  // Sorted by name. The names belong to the folder, until it is listed again.
  base::Result<std::vector<Entry>> List();
  // Both are for names without "/", as List tells them. Only a regular file is opened, as
  // ContainerRoot does.
  base::Result<base::FileDescriptor> OpenFile(const std::string& name);
  [[nodiscard]] base::Result<std::string> ReadLink(const std::string& name) const;

 private:
  friend class ContainerRoot;
  ContainerFolder(base::FileDescriptor folder, std::string inside)
      : folder_(std::move(folder)), inside_(std::move(inside)) {}
  base::FileDescriptor folder_;
  base::FileDescriptor own_files_;  // /proc/self/fd, once it is needed
  std::string inside_;
  std::vector<char> names_;
  // One file of each device that holds files, kept open: as long as it is, the device's number is
  // no other's, and need not be asked about again.
  std::vector<std::pair<dev_t, base::FileDescriptor>> holding_files_;
};

class ContainerRoot {
 public:
  // kInvalid for "", for the host's own root by whatever name, and for a link: a hook must never
  // work on the host.
  static base::Result<ContainerRoot> Open(const std::filesystem::path& path);

  // A handle without read or write access (O_PATH) to what `inside` leads to; the last link is
  // followed too.
  [[nodiscard]] base::Result<base::FileDescriptor> Find(std::string_view inside) const;
  // The same without following any link.
  [[nodiscard]] base::Result<base::FileDescriptor> FindWithoutLinks(std::string_view inside) const;
  // Whether anything lies there; a path that cannot be followed is an error, not "no".
  [[nodiscard]] base::Result<bool> Exists(std::string_view inside) const;
  // Opens a regular file of a file system that holds files; kInvalid for anything else.
  [[nodiscard]] base::Result<base::FileDescriptor> OpenFile(std::string_view inside) const;
  // kInvalid when it is longer than `limit` bytes.
  [[nodiscard]] base::Result<std::string> ReadFile(std::string_view inside,
                                                   std::size_t limit = 1U << 24) const;
  // kNotFound also for what is no folder.
  [[nodiscard]] base::Result<ContainerFolder> OpenFolder(std::string_view inside) const;
  // Sorted names; empty when the folder is missing.
  [[nodiscard]] base::Result<std::vector<std::string>> List(std::string_view inside) const;
  // Target of the link that the last part is; kInvalid when it is no link.
  [[nodiscard]] base::Result<std::string> ReadLink(std::string_view inside) const;
  // Where `inside` leads, as the container names it.
  [[nodiscard]] base::Result<std::string> Resolve(std::string_view inside) const;

  // Makes what is missing of the folder with mode 0755 and returns a handle to it. A link that
  // leads to nothing is an error, and so is a folder on a volume of the container's (kDenied
  // "OnAnotherMount"): that is what this and the two below never write to.
  [[nodiscard]] base::Result<base::FileDescriptor> MakeFolder(std::string_view inside) const;
  // Atomically, with exactly `mode`; missing folders are made. Replaces a link by the file.
  [[nodiscard]] base::Status WriteFile(std::string_view inside, std::string_view content,
                                       mode_t mode) const;
  // Nothing happens when nothing lies there. Only of the container's own files and of what the
  // container runtime made in /dev: kDenied "OnAnotherMount" for all else.
  [[nodiscard]] base::Status ChangeMode(std::string_view inside, mode_t mode) const;
  // Atomically; replaces whatever is there except a folder. Nothing happens when the link has that
  // target already.
  [[nodiscard]] base::Status SetLink(std::string_view inside, const std::string& target) const;

  // The root itself, opened with O_PATH; borrowed.
  [[nodiscard]] int handle() const { return root_.get(); }

 private:
  explicit ContainerRoot(base::FileDescriptor root) : root_(std::move(root)) {}
  base::FileDescriptor root_;
};

// What a runtime tells a hook of its container, from standard input. kInvalid when it does not end.
base::Result<std::string> ReadContainerState();

// 16 hexadecimal digits for names that must not collide.
std::string RandomName();

}  // namespace pitcrew::shim
