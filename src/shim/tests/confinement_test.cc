#include "shim/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/file.h"
#include "shim/cdi_hook.h"

namespace pitcrew::shim {
namespace {

namespace fs = std::filesystem;

// What a child that ran `work` ended with; privileges cannot be had back.
int InChild(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool OwnMounts() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

std::uint64_t Permitted() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2]{};
  ::syscall(SYS_capget, &header, sets);
  return sets[0].permitted | std::uint64_t{sets[1].permitted} << 32;
}

class Confinement : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("pitcrew-confined-" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "root/etc");
    fs::create_directories(folder_ / "outside");
    ASSERT_TRUE(base::WriteFileAtomically(folder_ / "outside/file", "x"));
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] bool HasLandlock() const {
    return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
  }
  fs::path folder_;
};

TEST_F(Confinement, OnlyWhatTheTaskNeedsIsLeft) {
  if (::geteuid() != 0) GTEST_SKIP() << "privileges can be given up by root only";
  constexpr std::uint64_t kOne = 1;
  constexpr std::uint64_t kFiles = kOne << CAP_DAC_OVERRIDE;
  ::setenv("LD_PRELOAD", "/x.so", 1);
  const auto left = [](Task task, std::uint64_t capabilities) {
    return InChild([=] {
      if (Permitted() == capabilities) return 1;
      if (!GiveUpPrivileges(task)) return 2;
      if ((Permitted() & ~capabilities) != 0) return 3;
      if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return 4;
      if (::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0) return 5;
      return std::getenv("LD_PRELOAD") == nullptr ? 0 : 6;
    });
  };
  EXPECT_EQ(left(Task::kFiles, kFiles), 0);
  EXPECT_EQ(left(Task::kModes, kFiles | kOne << CAP_FOWNER), 0);
  EXPECT_EQ(left(Task::kMounts, kFiles | kOne << CAP_SYS_ADMIN), 0);
  ::unsetenv("LD_PRELOAD");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(Confinement, MemoryHasAnEnd) {
  EXPECT_EQ(InChild([] {
              rlimit limit{};
              if (!GiveUpPrivileges(Task::kFiles) || ::getrlimit(RLIMIT_AS, &limit) != 0) return 1;
              return limit.rlim_cur <= rlim_t{1} << 30 ? 0 : 2;
            }),
            0);
}
#endif

// As a fault in the hook would, by paths of the host's.
TEST_F(Confinement, NothingOutsideTheRootCanBeReached) {
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock";
  const auto root = ContainerRoot::Open(folder_ / "root");
  ASSERT_TRUE(root) << root.error().message;
  const std::string outside = (folder_ / "outside/file").string();
  const std::string fresh = (folder_ / "outside/new").string();
  const auto reaches_it = [&] {
    const base::FileDescriptor read(::open(outside.c_str(), O_RDONLY | O_CLOEXEC));
    const base::FileDescriptor written(::open(outside.c_str(), O_WRONLY | O_CLOEXEC));
    const base::FileDescriptor made(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const bool linked = ::symlink("x", (fresh + "2").c_str()) == 0;
    const bool executed =
        ::access("/bin/true", X_OK) == 0 && InChild([] {
                                              ::execl("/bin/true", "true", nullptr);
                                              return 1;
                                            }) == 0;
    return (read.valid() ? 1 : 0) + (written.valid() ? 2 : 0) + (made.valid() ? 4 : 0) +
           (linked ? 8 : 0) + (executed ? 16 : 0);
  };
  EXPECT_EQ(InChild(reaches_it), 31) << "before";
  EXPECT_EQ(InChild([&] { return ConfineTo(*root) ? reaches_it() : 64; }), 0);
}

// As a fault in the hook would: 1 for a new program, 2 a socket, 4 a mode by path, 8 a mount.
TEST_F(Confinement, CallsWithoutAUseAreRefused) {
  const std::string file = (folder_ / "outside/file").string();
  const auto able = [&] {
    const bool started =
        ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == -1 && errno == EPERM;
    const base::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool moded = ::chmod(file.c_str(), 0640) == 0;
    // Without a mount to move: EPERM comes from the filter only.
    const bool mounted = ::syscall(SYS_move_mount, -1, "", -1, "", 0) == -1 && errno != EPERM;
    return (started ? 0 : 1) + (socket.valid() ? 2 : 0) + (moded ? 4 : 0) + (mounted ? 8 : 0);
  };
  const auto after = [&](Task task) {
    return InChild([&] { return GiveUpPrivileges(task) && ForbidCalls(task) ? able() : 64; });
  };
  EXPECT_EQ(after(Task::kFiles), 0);
  EXPECT_EQ(after(Task::kModes), 4);
  if (::geteuid() == 0) {
    EXPECT_EQ(after(Task::kMounts), 8);
  }
  EXPECT_EQ(InChild([&] { return able() & 6; }), 6) << "without it";
}

// The least, the greatest and some between of what is refused, each without an effect if it were
// not.
TEST_F(Confinement, EveryForbiddenCallIsFound) {
  struct Call {
    long number;
    const char* name;
  };
  const std::vector<Call> calls = {{SYS_execve, "execve"},
                                   {SYS_ptrace, "ptrace"},
                                   {SYS_socket, "socket"},
                                   {SYS_bpf, "bpf"},
                                   {SYS_setns, "setns"},
                                   {SYS_pidfd_getfd, "pidfd_getfd"},
                                   {SYS_keyctl, "keyctl"},
                                   {SYS_clone3, "clone3"},
                                   {SYS_move_mount, "move_mount"},
                                   {SYS_fsconfig, "fsconfig"},
                                   {SYS_fchmodat, "fchmodat"},
                                   {SYS_mknodat, "mknodat"},
                                   {SYS_linkat, "linkat"},
                                   {SYS_unshare, "unshare"},
                                   {SYS_kill, "kill"},
                                   {SYS_io_uring_setup, "uring"},
                                   {SYS_finit_module, "finit_module"},
                                   {SYS_setresuid, "setresuid"},
                                   {442, "mount_setattr"},
                                   {452, "fchmodat2"},
                                   {467, "open_tree_attr"}};
  for (const auto& call : calls) {
    EXPECT_EQ(InChild([&] {
                if (!GiveUpPrivileges(Task::kFiles) || !ForbidCalls(Task::kFiles)) return 64;
                return ::syscall(call.number, -1L, -1L, -1L, -1L, -1L) == -1 && errno == EPERM ? 0
                                                                                               : 1;
              }),
              0)
        << call.name;
  }
  EXPECT_EQ(
      InChild([&] {
        if (!GiveUpPrivileges(Task::kFiles) || !ForbidCalls(Task::kFiles)) return 64;
        for (const long number : {SYS_read, SYS_openat, SYS_close, SYS_renameat, SYS_fchmod}) {
          if (::syscall(number, -1L, nullptr, -1L, nullptr, 0L) == -1 && errno == EPERM) return 1;
        }
        return ::getpid() > 0 ? 0 : 2;
      }),
      0);
}

TEST_F(Confinement, HooksWorkInside) {
  const auto root = ContainerRoot::Open(folder_ / "root");
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(
      InChild([&] {
        if (!GiveUpPrivileges(Task::kModes) || !ConfineTo(*root) || !ForbidCalls(Task::kModes)) {
          return 1;
        }
        if (!root->WriteFile("/etc/new/file", "a", 0644)) return 2;
        if (!root->WriteFile("/etc/new/file", "b", 0600)) return 3;
        if (root->ReadFile("/etc/new/file").value_or("") != "b") return 4;
        if (!root->SetLink("/etc/link", "new") || !root->SetLink("/etc/link", "old")) return 5;
        return root->ChangeMode("/etc/new", 0711) && root->List("/etc") ? 0 : 6;
      }),
      0);
  EXPECT_EQ(fs::read_symlink(folder_ / "root/etc/link"), "old");
}

TEST_F(Confinement, ARootThatIsTheHostsByAnotherNameIsRefused) {
  for (const char* name : {"/proc/self/root", "/proc/self/root/", "/usr/.."}) {
    const auto root = ContainerRoot::Open(name);
    ASSERT_FALSE(root) << name;
    EXPECT_EQ(root.error().reason, "InvalidContainerRoot") << name;
  }
  fs::create_directory_symlink("root", folder_ / "link");
  for (const char* ending : {"", "/", "//", "/.", "/./"}) {
    const auto link = ContainerRoot::Open((folder_ / "link").string() + ending);
    ASSERT_FALSE(link) << ending;
    EXPECT_NE(link.error().message.find("it is a link"), std::string::npos) << link.error().message;
    EXPECT_TRUE(ContainerRoot::Open((folder_ / "root").string() + ending)) << ending;
  }
  EXPECT_FALSE(ContainerRoot::Open(folder_ / "outside/file"));
  EXPECT_EQ(ContainerRoot::Open(folder_ / "none").error().code, base::Code::kNotFound);
}

// Modes of what a volume brings are its owner's; the runtime's own /dev is the container's.
TEST_F(Confinement, ModesChangeOnlyOfTheContainersOwn) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  const fs::path dev = folder_ / "root/dev";
  fs::create_directories(dev);
  fs::create_directories(folder_ / "root/data");
  const auto mode = [](const fs::path& path) {
    return static_cast<int>(fs::status(path).permissions());
  };
  EXPECT_EQ(
      InChild([&] {
        if (!OwnMounts()) return 1;
        const fs::path volume = folder_ / "outside";
        if (::mount("tmpfs", dev.c_str(), "tmpfs", 0, nullptr) != 0 ||
            ::mount(volume.c_str(), (folder_ / "root/data").c_str(), nullptr, MS_BIND, nullptr) !=
                0 ||
            ::mkdir((dev / "caps").c_str(), 0700) != 0 ||
            ::mkdir((dev / "volume").c_str(), 0700) != 0 ||
            ::mount(volume.c_str(), (dev / "volume").c_str(), nullptr, MS_BIND, nullptr) != 0) {
          return 2;
        }
        fs::create_symlink("../data", dev / "link");
        const int before = mode(volume);
        const auto root = ContainerRoot::Open(folder_ / "root");
        if (!root->ChangeMode("/dev/caps", 0755) || mode(dev / "caps") != 0755) return 3;
        for (const char* path : {"/dev/volume", "/dev/link", "/data", "/data/file"}) {
          const auto changed = root->ChangeMode(path, 0711);
          if (changed || changed.error().reason != "OnAnotherMount") return 4;
        }
        if (mode(volume) != before) return 5;
        return root->ChangeMode("/dev/none", 0711) && root->ChangeMode("/none", 0711) ? 0 : 6;
      }),
      0);
}

// A container that has the host's /dev keeps the host's modes.
TEST_F(Confinement, ModesOfTheHostsDevStay) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  const fs::path dev = folder_ / "root/dev";
  fs::create_directories(dev);
  EXPECT_EQ(InChild([&] {
              if (!OwnMounts() || ::mount("tmpfs", "/dev", "tmpfs", 0, nullptr) != 0 ||
                  ::mkdir("/dev/caps", 0700) != 0 ||
                  ::mount("/dev", dev.c_str(), nullptr, MS_BIND, nullptr) != 0) {
                return 1;
              }
              const auto root = ContainerRoot::Open(folder_ / "root");
              const auto changed = root->ChangeMode("/dev/caps", 0755);
              if (changed || changed.error().reason != "OnAnotherMount") return 2;
              return ChangeModes(*root, 0755, {"/dev/caps"}) ? 0 : 3;
            }),
            0);
}

// So does one that has a volume there: of a kind that no runtime has at /dev, whatever the machine
// has at /tmp.
TEST_F(Confinement, ModesOfAVolumeAtDevStay) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  const fs::path dev = folder_ / "root/dev";
  const fs::path volume = folder_ / "outside";
  fs::create_directories(dev);
  EXPECT_EQ(InChild([&] {
              if (!OwnMounts() || ::mount("ramfs", volume.c_str(), "ramfs", 0, nullptr) != 0 ||
                  !fs::create_directory(volume / "caps") ||
                  ::mount(volume.c_str(), dev.c_str(), nullptr, MS_BIND, nullptr) != 0) {
                return 1;
              }
              const auto root = ContainerRoot::Open(folder_ / "root");
              const auto changed = root->ChangeMode("/dev/caps", 0711);
              return !changed && changed.error().reason == "OnAnotherMount" ? 0 : 2;
            }),
            0);
}

TEST_F(Confinement, FilesThatTheKernelMakesAreNotRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  fs::create_directories(folder_ / "root/proc");
  fs::create_symlink("../proc/self/mountinfo", folder_ / "root/etc/conf");
  EXPECT_EQ(InChild([&] {
              if (!OwnMounts() ||
                  ::mount("proc", (folder_ / "root/proc").c_str(), "proc", 0, nullptr) != 0) {
                return 1;
              }
              const auto root = ContainerRoot::Open(folder_ / "root");
              const auto text = root->ReadFile("/etc/conf");
              return !text && text.error().reason == "NotARegularFile" ? 0 : 2;
            }),
            0);
}

// The node's parameters, played by a file over /proc/driver; `container` makes the container's
// /proc.
class Parameters : public Confinement {
 protected:
  int Cover(const std::function<bool()>& container) {
    return InChild([&] {
      if (!OwnMounts() || ::mount("tmpfs", "/proc/driver", "tmpfs", 0, nullptr) != 0 ||
          ::mkdir("/proc/driver/nvidia", 0755) != 0) {
        return 90;
      }
      if (!base::WriteFileAtomically("/proc/driver/nvidia/params", "ModifyDeviceFiles: 1\n") ||
          !container()) {
        return 91;
      }
      const auto root = ContainerRoot::Open(folder_ / "root");
      if (!GiveUpPrivileges(Task::kMounts) || !ForbidCalls(Task::kMounts)) return 92;
      const auto done = DisableDeviceNodeModification(*root);
      if (base::ReadFile(folder_ / "outside/params").value_or("x") != "x") return 93;
      if (!done) return done.error().reason == "NotProc" ? 1 : 2;
      const auto text = base::ReadFile(folder_ / "root/proc/driver/nvidia/params");
      return text.value_or("") == "ModifyDeviceFiles: 0\n" ? 0 : 94;
    });
  }
};

TEST_F(Parameters, AreCoveredInTheContainersProc) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  const std::string proc = (folder_ / "root/proc").string();
  fs::create_directories(proc);
  EXPECT_EQ(Cover([&] {
              return ::mount("proc", proc.c_str(), "proc", 0, nullptr) == 0 &&
                     ::mount("/proc/driver", (proc + "/driver").c_str(), nullptr, MS_BIND,
                             nullptr) == 0;
            }),
            0);
}

// What is mounted over a file of a shared volume is seen by whoever shares it.
TEST_F(Parameters, AreNotCoveredThroughALink) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  EXPECT_EQ(Cover([&] {
              fs::create_directories(folder_ / "root/proc/driver/nvidia");
              fs::create_directories(folder_ / "root/data");
              fs::create_symlink("/data/params", folder_ / "root/proc/driver/nvidia/params");
              return base::WriteFileAtomically(folder_ / "outside/params", "x").has_value() &&
                     ::mount((folder_ / "outside").c_str(), (folder_ / "root/data").c_str(),
                             nullptr, MS_BIND, nullptr) == 0;
            }),
            1);
}

}  // namespace
}  // namespace pitcrew::shim
