#include "simulation/state/state_file.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>

namespace pitcrew::simulation {
namespace {

constexpr char kMagic[8] = {'P', 'C', 'S', 'I', 'M', 'G', 'P', 'U'};
constexpr std::size_t kPage = 4096;

// An ELF shared object without content, so that tools which read library folders accept the file.
struct ElfPreface {
  Elf64_Ehdr header;
  Elf64_Phdr segments[2];
  Elf64_Dyn dynamic[4];
  char strings[8];
};

std::int64_t Now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Holds flock(2); tells whether it could be had.
class FileLock {
 public:
  explicit FileLock(int fd) : fd_(fd) {
    int result = 0;
    do {
      result = ::flock(fd, LOCK_EX);
    } while (result != 0 && errno == EINTR);
    held_ = result == 0;
  }
  ~FileLock() {
    if (held_) ::flock(fd_, LOCK_UN);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  [[nodiscard]] bool held() const { return held_; }

 private:
  int fd_;
  bool held_;
};

}  // namespace

std::int64_t RealtimeNow() { return Now(CLOCK_REALTIME); }
std::int64_t MonotonicNow() { return Now(CLOCK_MONOTONIC); }

struct StateFile::Contents {
  union {
    ElfPreface elf;
    unsigned char preface_page[kPage];
  };
  struct Header {
    char magic[8];
    std::uint32_t layout_version;
    std::uint32_t state_size;
    // The state in force is states[generation % 2].
    std::atomic<std::uint64_t> generation;
    // Follows the generation; what waiters sleep on.
    std::atomic<std::uint32_t> changes;
  };
  union {
    Header header;
    unsigned char header_page[kPage];
  };
  NodeState states[2];
};

namespace {

void FillPreface(ElfPreface& elf) {
  elf = {};
  std::memcpy(elf.header.e_ident, ELFMAG, SELFMAG);
  elf.header.e_ident[EI_CLASS] = ELFCLASS64;
  elf.header.e_ident[EI_DATA] = ELFDATA2LSB;
  elf.header.e_ident[EI_VERSION] = EV_CURRENT;
  elf.header.e_type = ET_DYN;
  elf.header.e_machine = EM_X86_64;
  elf.header.e_version = EV_CURRENT;
  elf.header.e_ehsize = sizeof(Elf64_Ehdr);
  elf.header.e_phoff = offsetof(ElfPreface, segments);
  elf.header.e_phentsize = sizeof(Elf64_Phdr);
  elf.header.e_phnum = 2;
  elf.header.e_shentsize = sizeof(Elf64_Shdr);
  auto& load = elf.segments[0];
  load.p_type = PT_LOAD;
  load.p_flags = PF_R;
  load.p_filesz = load.p_memsz = sizeof(ElfPreface);
  load.p_align = kPage;
  auto& dynamic = elf.segments[1];
  dynamic.p_type = PT_DYNAMIC;
  dynamic.p_flags = PF_R;
  dynamic.p_offset = dynamic.p_vaddr = dynamic.p_paddr = offsetof(ElfPreface, dynamic);
  dynamic.p_filesz = dynamic.p_memsz = sizeof(elf.dynamic);
  dynamic.p_align = alignof(Elf64_Dyn);
  elf.dynamic[0].d_tag = DT_STRTAB;
  elf.dynamic[0].d_un.d_ptr = offsetof(ElfPreface, strings);
  elf.dynamic[1].d_tag = DT_STRSZ;
  elf.dynamic[1].d_un.d_val = sizeof(elf.strings);
}

}  // namespace

StateFile::StateFile(std::filesystem::path path, base::FileDescriptor fd, bool writable,
                     Contents* contents)
    : path_(std::move(path)), fd_(std::move(fd)), writable_(writable), contents_(contents) {}

StateFile::~StateFile() { ::munmap(contents_, sizeof(Contents)); }

base::Result<std::shared_ptr<StateFile>> StateFile::Map(const std::filesystem::path& path,
                                                        base::FileDescriptor fd, bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* memory = ::mmap(nullptr, sizeof(Contents), protection, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {
    return base::Fail(base::FromErrno(errno, "map the GPU state file " + path.string()));
  }
  return std::shared_ptr<StateFile>(
      new StateFile(path, std::move(fd), writable, static_cast<Contents*>(memory)));
}

namespace {

// A container runtime mounts the driver's files read-only, but a real driver takes changes from any
// container with the rights for it (CAP_SYS_ADMIN): such a one opens the file through a mount of
// its own, which nobody else sees. Linux 5.12.
base::FileDescriptor OpenWithRights(const std::filesystem::path& path) {
  const base::FileDescriptor own(static_cast<int>(
      ::syscall(SYS_open_tree, AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  mount_attr attributes{};
  attributes.attr_clr = MOUNT_ATTR_RDONLY;
  if (!own.valid() || ::syscall(SYS_mount_setattr, own.get(), "", AT_EMPTY_PATH, &attributes,
                                sizeof(attributes)) != 0) {
    return {};
  }
  const std::string link = "/proc/self/fd/" + std::to_string(own.get());
  return base::FileDescriptor(::open(link.c_str(), O_RDWR | O_CLOEXEC));
}

}  // namespace

base::Result<std::shared_ptr<StateFile>> StateFile::Open(const std::filesystem::path& path) {
  base::FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid() && errno == EROFS) {
    fd = OpenWithRights(path);
    if (!fd.valid()) errno = EROFS;
  }
  const bool writable = fd.valid();
  if (!writable && (errno == EROFS || errno == EACCES || errno == EPERM)) {
    fd = base::FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (!fd.valid()) {
    return base::Fail(base::FromErrno(errno, "open the GPU state file " + path.string()));
  }
  const auto damaged = [&](const std::string& what) {
    return base::Fail(base::Invalid("StateDamaged", path.string() + " " + what));
  };
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0 || info.st_size < static_cast<off_t>(2 * kPage)) {
    return damaged("is no GPU state file; make it anew with pitcrew-simulate state create");
  }
  // The header is read before the mapping, so that a file of another layout (and size) is never
  // touched beyond its end.
  unsigned char page[sizeof(Contents::Header)];
  if (::pread(fd.get(), page, sizeof(page), kPage) != static_cast<ssize_t>(sizeof(page)) ||
      std::memcmp(page, kMagic, sizeof(kMagic)) != 0) {
    return damaged("is no GPU state file; make it anew with pitcrew-simulate state create");
  }
  std::uint32_t numbers[2];
  std::memcpy(numbers, page + sizeof(kMagic), sizeof(numbers));
  if (numbers[0] != kLayoutVersion || numbers[1] != sizeof(NodeState)) {
    return base::Fail({base::Code::kUnsupported, "StateLayoutMismatch",
                       path.string() + " was made by another version of the simulation; make it "
                                       "anew with pitcrew-simulate state create"});
  }
  if (info.st_size < static_cast<off_t>(sizeof(Contents))) return damaged("is cut short");
  return Map(path, std::move(fd), writable);
}

base::Status StateFile::WriteNew(const std::filesystem::path& path, const NodeState& state) {
  std::error_code ignored;  // open reports what is wrong with the folder
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  // A file of its own, renamed over `path`: whoever has an old file mapped keeps that one whole.
  std::string name = path.string() + ".XXXXXX";
  base::FileDescriptor fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd.valid()) {
    return base::Fail(base::FromErrno(errno, "make the GPU state file " + path.string()));
  }
  const auto fail = [&](const char* what) {
    auto error = base::FromErrno(errno, std::string(what) + " " + name);
    ::unlink(name.c_str());
    return base::Fail(std::move(error));
  };
  if (::ftruncate(fd.get(), sizeof(Contents)) != 0) return fail("size");
  if (::fchmod(fd.get(), 0644) != 0) return fail("set the mode of");
  {
    TRY_ASSIGN(auto fresh, Map(path, std::move(fd), true));
    Contents& contents = *fresh->contents_;
    FillPreface(contents.elf);
    contents.header.layout_version = kLayoutVersion;
    contents.header.state_size = sizeof(NodeState);
    contents.states[0] = state;
    std::memcpy(contents.header.magic, kMagic, sizeof(kMagic));
  }
  if (::rename(name.c_str(), path.c_str()) != 0) return fail("rename");
  return {};
}

base::Result<std::shared_ptr<StateFile>> StateFile::Create(const std::filesystem::path& path,
                                                           const NodeState& state) {
  if (auto existing = Open(path); existing && (*existing)->writable()) {
    TRY((*existing)->Update([&](NodeState& current) {
      const auto last_event = current.last_event;
      current = state;
      // Event numbers only grow: whoever waits across the change must not miss or repeat one.
      current.last_event = std::max(state.last_event, last_event);
      return true;
    }));
    return existing;
  }
  TRY(WriteNew(path, state));
  return Open(path);
}

std::uint64_t StateFile::inode() const {
  struct stat info{};
  return ::fstat(fd_.get(), &info) == 0 ? info.st_ino : 0;
}

std::shared_ptr<const NodeState> StateFile::Snapshot() {
  const std::lock_guard guard(mutex_);
  const auto& header = contents_->header;
  auto generation = header.generation.load(std::memory_order_acquire);
  while (!cache_ || cached_generation_ != generation) {
    auto copy = std::make_shared<NodeState>();
    std::memcpy(copy.get(), &contents_->states[generation % 2], sizeof(NodeState));
    std::atomic_thread_fence(std::memory_order_acquire);
    // A writer touches the copy that was just read only after publishing the next generation.
    const auto after = header.generation.load(std::memory_order_acquire);
    if (after == generation) {
      cache_ = std::move(copy);
      cached_generation_ = generation;
    }
    generation = after;
  }
  return cache_;
}

base::Status StateFile::Update(const std::function<bool(NodeState&)>& change) {
  if (!writable_) {
    return base::Fail({base::Code::kDenied, "StateReadOnly",
                       path_.string() + " is mounted read-only here; run this on the node"});
  }
  const std::lock_guard guard(mutex_);
  const FileLock lock(fd_.get());
  if (!lock.held()) return base::Fail(base::FromErrno(errno, "lock " + path_.string()));
  auto& header = contents_->header;
  const auto generation = header.generation.load(std::memory_order_acquire);
  NodeState& next = contents_->states[(generation + 1) % 2];
  std::memcpy(&next, &contents_->states[generation % 2], sizeof(NodeState));
  if (!change(next)) return {};
  header.generation.store(generation + 1, std::memory_order_release);
  header.changes.store(static_cast<std::uint32_t>(generation + 1), std::memory_order_release);
  ::syscall(SYS_futex, &header.changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return {};
}

namespace {

// One byte behind the contents stands for the driver: its users have it locked as readers, who
// takes it away as the writer. By open file, so that each object of a process is a user of its own.
bool LockDriver(int fd, short kind, bool wait) {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = std::numeric_limits<std::int32_t>::max();
  lock.l_len = 1;
  int result = 0;
  do {
    result = ::fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace

base::Status StateFile::UseDriver() {
  if (LockDriver(fd_.get(), F_RDLCK, true)) return {};
  return base::Fail(base::FromErrno(errno, "lock the driver in " + path_.string()));
}

bool StateFile::TakeDriver(bool wait) { return LockDriver(fd_.get(), F_WRLCK, wait); }

void StateFile::LeaveDriver() { (void)LockDriver(fd_.get(), F_UNLCK, false); }

std::uint32_t StateFile::ChangeCount() const {
  return contents_->header.changes.load(std::memory_order_acquire);
}

bool StateFile::Wait(std::uint32_t seen, std::optional<std::int64_t> deadline_nanoseconds) const {
  const auto& changes = contents_->header.changes;
  while (changes.load(std::memory_order_acquire) == seen) {
    timespec deadline{};
    if (deadline_nanoseconds) {
      deadline.tv_sec = static_cast<time_t>(*deadline_nanoseconds / 1'000'000'000);
      deadline.tv_nsec = static_cast<long>(*deadline_nanoseconds % 1'000'000'000);
    }
    // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC deadline.
    if (::syscall(SYS_futex, &changes, FUTEX_WAIT_BITSET, seen,
                  deadline_nanoseconds ? &deadline : nullptr, nullptr,
                  FUTEX_BITSET_MATCH_ANY) != 0 &&
        errno == ETIMEDOUT) {
      return changes.load(std::memory_order_acquire) != seen;
    }
  }
  return true;
}

}  // namespace pitcrew::simulation
