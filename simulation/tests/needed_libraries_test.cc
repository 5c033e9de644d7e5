// The built libraries ask for the parts of the C library that NVIDIA's ask for, though they need
// none: an image that cannot give them must fail with simulated GPUs too. Read (readelf -d) from
// libnvidia-ml1 and libcuda1 535.261.03-1 of Debian 12.
#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <string>
#include <vector>

#include "tests/support/folders.h"

namespace pitcrew::simulation {
namespace {

std::vector<std::string> NeededBy(const char* library) {
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    ADD_FAILURE() << ::dlerror();
    return {};
  }
  std::vector<std::string> names;
  const link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) {
    ADD_FAILURE() << ::dlerror();
    return {};
  }
  const char* strings = nullptr;
  for (const auto* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    // glibc has made an address of it.
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  }
  for (const auto* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED) names.emplace_back(strings + entry->d_un.d_val);
  }
  return names;
}

TEST(NeededLibraries, AreThoseOfNvidiasLibraries) {
  for (const auto* name : {"libnvidia-ml.so.1", "libcuda.so.1"}) {
    const auto library = (test_support::BuildFolder() / "lib" / name).string();
    const auto needed = NeededBy(library.c_str());
    EXPECT_THAT(needed, testing::IsSupersetOf({"libpthread.so.0", "libm.so.6", "libdl.so.2",
                                               "librt.so.1", "libc.so.6"}))
        << name;
    // Loaded into any container: glibc is all they may need.
    EXPECT_THAT(needed, testing::IsSubsetOf({"libpthread.so.0", "libm.so.6", "libdl.so.2",
                                             "librt.so.1", "libc.so.6", "ld-linux-x86-64.so.2"}))
        << name;
  }
}

}  // namespace
}  // namespace pitcrew::simulation
