// The border to libfuse.
#define FUSE_USE_VERSION 34
#include <fuse3/fuse.h>
#include <fuse3/fuse_lowlevel.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "simulation/sysfs/file_system.h"

namespace pitcrew::simulation::sysfs {
namespace {

FileSystem& Files() { return *static_cast<FileSystem*>(fuse_get_context()->private_data); }

void* Init(fuse_conn_info*, fuse_config* config) {
  // Nothing is remembered: the next look must see what the last write did.
  config->entry_timeout = 0;
  config->attr_timeout = 0;
  config->negative_timeout = 0;
  config->direct_io = 0;  // decided for each file
  // The same path is the same inode, whenever somebody looks; libfuse would number as it is asked.
  config->use_ino = 1;
  config->kernel_cache = 0;
  return fuse_get_context()->private_data;
}

int GetAttributes(const char* path, struct stat* result, fuse_file_info*) {
  const auto tree = Files().Current();
  const Node* node = tree->Find(path);
  if (node == nullptr) return -ENOENT;
  *result = {};
  result->st_ino = std::hash<std::string_view>{}(path) + node->incarnation;
  result->st_nlink = 1;
  result->st_mode = node->mode;
  switch (node->kind) {
    case Node::Kind::kFolder:
      result->st_mode |= S_IFDIR;
      result->st_nlink = 2;
      break;
    case Node::Kind::kFile:
      result->st_mode |= S_IFREG;
      result->st_size = static_cast<off_t>(node->size);
      break;
    case Node::Kind::kLink:
      result->st_mode |= S_IFLNK;
      result->st_size = static_cast<off_t>(node->content.size());
      break;
  }
  return 0;
}

int ReadLink(const char* path, char* buffer, std::size_t size) {
  const auto tree = Files().Current();
  const Node* node = tree->Find(path);
  if (node == nullptr) return -ENOENT;
  if (node->kind != Node::Kind::kLink) return -EINVAL;
  const std::size_t length = std::min(node->content.size(), size - 1);
  std::memcpy(buffer, node->content.data(), length);
  buffer[length] = '\0';
  return 0;
}

int ReadFolder(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
               fuse_readdir_flags) {
  const auto tree = Files().Current();
  const Node* node = tree->Find(path);
  if (node == nullptr) return -ENOENT;
  if (node->kind != Node::Kind::kFolder) return -ENOTDIR;
  const auto add = [&](const char* name) {
    return fill(buffer, name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  };
  add(".");
  add("..");
  for (const auto& name : node->children) add(name.c_str());
  return 0;
}

// Also for root: kernfs refuses to open what has no show or store function (Linux:
// fs/kernfs/file.c).
int Open(const char* path, fuse_file_info* info) {
  const auto tree = Files().Current();
  const Node* node = tree->Find(path);
  if (node == nullptr) return -ENOENT;
  const int access = info->flags & O_ACCMODE;
  if (access != O_RDONLY && (node->mode & 0222) == 0) return -EACCES;
  if (access != O_WRONLY && (node->mode & 0444) == 0) return -EACCES;
  if (node->is_registers) return -Files().FollowRegisters(fuse_get_context()->pid);
  info->direct_io = 1;
  return 0;
}

int Read(const char* path, char* buffer, std::size_t size, off_t offset, fuse_file_info*) {
  const auto tree = Files().Current();
  const Node* node = tree->Find(path);
  if (node == nullptr) return -ENODEV;  // it was there when it was opened
  // The kernel has no read of them either; a program that maps them gets a fault for each access.
  if (node->is_registers) return -EIO;
  const auto start = std::min(static_cast<std::size_t>(offset), node->content.size());
  const std::size_t length = std::min(size, node->content.size() - start);
  std::memcpy(buffer, node->content.data() + start, length);
  return static_cast<int>(length);
}

int Write(const char* path, const char* buffer, std::size_t size, off_t, fuse_file_info*) {
  const Errno error = Files().Store(path, std::string_view(buffer, size));
  return error == 0 ? static_cast<int>(size) : -error;
}

int Truncate(const char*, off_t, fuse_file_info*) { return 0; }
// What sysfs answers to whoever wants to make or remove something.
int RefuseCreate(const char*, mode_t, fuse_file_info*) { return -EACCES; }
int RefuseFolder(const char*, mode_t) { return -EPERM; }
int RefuseRemoval(const char*) { return -EPERM; }
int RefuseLink(const char*, const char*) { return -EPERM; }
int RefuseRename(const char*, const char*, unsigned) { return -EPERM; }

fuse_operations Operations() {
  fuse_operations operations{};
  operations.init = Init;
  operations.getattr = GetAttributes;
  operations.readlink = ReadLink;
  operations.readdir = ReadFolder;
  operations.open = Open;
  operations.read = Read;
  operations.write = Write;
  operations.truncate = Truncate;
  operations.create = RefuseCreate;
  operations.mkdir = RefuseFolder;
  operations.unlink = RefuseRemoval;
  operations.rmdir = RefuseRemoval;
  operations.symlink = RefuseLink;
  operations.link = RefuseLink;
  operations.rename = RefuseRename;
  return operations;
}

base::Error Failed(const std::string& what, const std::filesystem::path& folder) {
  return base::Internal(
      "MountFailed", what + " " + folder.string() +
                         "; it needs /dev/fuse, and the right to mount (see the messages above)");
}

base::Status Loop(fuse* fuse, const std::filesystem::path& folder,
                  const std::function<base::Status()>& mounted) {
  fuse_session* session = fuse_get_session(fuse);
  if (fuse_set_signal_handlers(session) != 0) return base::Fail(Failed("cannot serve", folder));
  auto status = mounted();
  if (status) {
    fuse_loop_config config{};
    config.clone_fd = 0;
    config.max_idle_threads = 10;
    // A signal's number, or 0 when it was unmounted: both are an end.
    if (fuse_loop_mt(fuse, &config) < 0) status = base::Fail(Failed("cannot serve", folder));
  }
  fuse_remove_signal_handlers(session);
  return status;
}

}  // namespace

base::Status Serve(FileSystem& files, const std::filesystem::path& folder,
                   const std::function<base::Status()>& mounted) {
  std::string options = "allow_other,default_permissions,fsname=simulated-sysfs,subtype=sysfs";
  std::string program = "pitcrew-simulate";
  std::string flag = "-o";
  char* words[] = {program.data(), flag.data(), options.data()};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  const fuse_operations operations = Operations();
  fuse* fuse = fuse_new(&arguments, &operations, sizeof(operations), &files);
  if (fuse == nullptr) return base::Fail(Failed("cannot make a file system for", folder));
  base::Status status;
  if (fuse_mount(fuse, folder.c_str()) != 0) {
    status = base::Fail(Failed("cannot mount at", folder));
  } else {
    status = Loop(fuse, folder, mounted);
    fuse_unmount(fuse);
  }
  fuse_destroy(fuse);
  fuse_opt_free_args(&arguments);
  return status;
}

}  // namespace pitcrew::simulation::sysfs
