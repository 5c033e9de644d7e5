#include "simulation/state/state_file.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "simulation/state/readings.h"
#include "simulation/testing/test_node.h"

namespace pitcrew::simulation {
namespace {

constexpr const char* kTwo = "gpus: [{profile: H100-80, count: 2}]";

void SetFirstLoad(StateFile& file, std::uint32_t percent) {
  const auto status = file.Update([&](NodeState& node) {
    SetLoad(node.gpus[0], percent, RealtimeNow());
    return true;
  });
  ASSERT_TRUE(status) << status.error().message;
}

// Waits for a child; its exit status.
int Reap(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(StateFile, MissingFileIsNotFound) {
  const auto file = StateFile::Open("/nonexistent/state");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, base::Code::kNotFound);
}

TEST(StateFile, ForeignFilesAreRefused) {
  const auto folder = MakeTemporaryFolder();
  for (const std::size_t size : {0u, 5u, 8192u, 400000u}) {
    std::ofstream(folder / "foreign", std::ios::binary) << std::string(size, 'x');
    const auto file = StateFile::Open(folder / "foreign");
    ASSERT_FALSE(file) << size;
    EXPECT_EQ(file.error().reason, "StateDamaged") << size;
  }
  std::filesystem::remove_all(folder);
}

TEST(StateFile, AFileCutShortIsRefused) {
  TestNode node(kTwo);
  std::filesystem::resize_file(node.state_path(), 20000);
  const auto file = StateFile::Open(node.state_path());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().reason, "StateDamaged");
}

TEST(StateFile, AnotherLayoutIsRefusedAndReplacedByCreate) {
  TestNode node(kTwo);
  {
    std::fstream raw(node.state_path(), std::ios::in | std::ios::out | std::ios::binary);
    raw.seekp(4096 + 8);
    const std::uint32_t other = kLayoutVersion + 1;
    raw.write(reinterpret_cast<const char*>(&other), sizeof(other));
  }
  const auto refused = StateFile::Open(node.state_path());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "StateLayoutMismatch");
  const auto replaced = StateFile::Create(node.state_path(), *node.file().Snapshot());
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_EQ((*replaced)->Snapshot()->gpu_count, 2u);
}

TEST(StateFile, TwoProcessesSeeEachOthersChanges) {
  TestNode node(kTwo);
  const auto seen = node.file().ChangeCount();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto file = StateFile::Open(node.state_path());
    if (!file) ::_exit(1);
    SetFirstLoad(**file, 77);
    // And waits for the parent's answer.
    auto changes = (*file)->ChangeCount();
    while ((*file)->Snapshot()->gpus[1].load != 33) {
      (void)(*file)->Wait(changes, std::nullopt);
      changes = (*file)->ChangeCount();
    }
    ::_exit(0);
  }
  ASSERT_TRUE(node.file().Wait(seen, std::nullopt));
  EXPECT_EQ(node.file().Snapshot()->gpus[0].load, 77u);
  ASSERT_TRUE(node.file().Update([](NodeState& state) {
    SetLoad(state.gpus[1], 33, RealtimeNow());
    return true;
  }));
  EXPECT_EQ(Reap(child), 0);
}

// A process killed while it holds the lock, in the middle of a change, neither blocks the others
// nor leaves half of its change.
TEST(StateFile, AKilledWriterHangsNobody) {
  TestNode node(kTwo);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto file = StateFile::Open(node.state_path());
    if (!file) ::_exit(1);
    (void)(*file)->Update([&](NodeState& state) {
      std::memset(&state, 0xee, sizeof(state) / 2);
      (void)!::write(ready[1], "x", 1);
      ::pause();  // until it is killed, with the lock held
      return true;
    });
    ::_exit(2);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(node.file().Snapshot()->gpu_count, 2u) << "readers take no lock";
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_TRUE(WIFSIGNALED(Reap(child)));
  SetFirstLoad(node.file(), 12);
  EXPECT_EQ(node.file().Snapshot()->gpus[0].load, 12u);
  EXPECT_STREQ(node.file().Snapshot()->gpus[0].name, "NVIDIA H100 80GB HBM3");
  ::close(ready[0]);
  ::close(ready[1]);
}

// CAP_SYS_ADMIN of this thread, taken away and given back.
void MayMount(bool may) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  ASSERT_EQ(::syscall(SYS_capget, &header, data), 0);
  const std::uint32_t bit = 1U << CAP_SYS_ADMIN;
  data[0].effective = may ? data[0].effective | bit : data[0].effective & ~bit;
  ASSERT_EQ(::syscall(SYS_capset, &header, data), 0);
}

TEST(StateFile, ReadOnlyMountsAllowReadingAndWaiting) {
  if (::unshare(CLONE_NEWNS) != 0) GTEST_SKIP() << "needs a mount namespace of its own";
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  TestNode node(kTwo);
  const auto view = node.folder() / "view";
  std::ofstream(view) << "";
  ASSERT_EQ(::mount(node.state_path().c_str(), view.c_str(), nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, view.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
  MayMount(false);
  const auto file = StateFile::Open(view);
  MayMount(true);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_FALSE((*file)->writable());
  const auto denied = (*file)->Update([](NodeState&) { return true; });
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().reason, "StateReadOnly");
  const auto seen = (*file)->ChangeCount();
  std::thread writer([&] { SetFirstLoad(node.file(), 9); });
  EXPECT_TRUE((*file)->Wait(seen, std::nullopt));
  writer.join();
  EXPECT_EQ((*file)->Snapshot()->gpus[0].load, 9u);
  // As in a privileged container: a driver takes its changes however its files are mounted.
  const auto privileged = StateFile::Open(view);
  ASSERT_TRUE(privileged) << privileged.error().message;
  SetFirstLoad(**privileged, 10);
  EXPECT_EQ(node.file().Snapshot()->gpus[0].load, 10u);
  EXPECT_EQ(::open(view.c_str(), O_RDWR), -1) << "the mount itself stays read-only";
  EXPECT_EQ(::umount2(view.c_str(), MNT_DETACH), 0);
}

TEST(StateFile, WaitEndsAtItsDeadline) {
  TestNode node(kTwo);
  EXPECT_FALSE(node.file().Wait(node.file().ChangeCount(), MonotonicNow()));
}

// Whoever has the file mapped keeps seeing it when a state is made anew in it.
TEST(StateFile, CreateKeepsTheFileAndItsEventNumbers) {
  TestNode node(kTwo);
  ASSERT_TRUE(node.file().Update([](NodeState& state) {
    state.last_event = 41;
    return true;
  }));
  NodeState fresh = *node.file().Snapshot();
  fresh.last_event = 0;
  fresh.gpu_count = 1;
  ASSERT_TRUE(StateFile::Create(node.state_path(), fresh));
  EXPECT_EQ(node.file().Snapshot()->gpu_count, 1u);
  EXPECT_EQ(node.file().Snapshot()->last_event, 41u);
}

// The file lies among libraries: what reads ELF headers there must not stumble.
TEST(StateFile, TheDriverIsTakenOnlyFromNobody) {
  TestNode node("gpus: [{profile: T4}]");
  const auto first = *StateFile::Open(node.state_path());
  auto second = *StateFile::Open(node.state_path());
  EXPECT_TRUE(first->TakeDriver(false));
  first->LeaveDriver();
  ASSERT_TRUE(first->UseDriver());
  EXPECT_TRUE(first->TakeDriver(false)) << "oneself is nobody else";
  ASSERT_TRUE(first->UseDriver());
  ASSERT_TRUE(second->UseDriver());
  EXPECT_FALSE(first->TakeDriver(false));
  second.reset();
  EXPECT_TRUE(first->TakeDriver(true));
}

TEST(StateFile, BeginsLikeASharedObject) {
  TestNode node(kTwo);
  std::ifstream raw(node.state_path(), std::ios::binary);
  Elf64_Ehdr header{};
  raw.read(reinterpret_cast<char*>(&header), sizeof(header));
  EXPECT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
  EXPECT_EQ(header.e_type, ET_DYN);
  EXPECT_EQ(header.e_machine, EM_X86_64);
  EXPECT_EQ(header.e_phnum, 2);
}

TEST(StateFile, ManyWritersLoseNothing) {
  TestNode node(kTwo);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto file = StateFile::Open(node.state_path());
      for (int j = 0; file && j < 50; ++j) {
        (void)(*file)->Update([](NodeState& state) {
          ++state.last_serial;
          return true;
        });
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(node.file().Snapshot()->last_serial, 200u);
}

}  // namespace
}  // namespace pitcrew::simulation
