// The built libnvidia-ml.so.1, loaded and called as its users do it: by dlopen and dlsym.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "nvml/abi.h"
#include "simulation/testing/test_node.h"

namespace pitcrew::simulation {

using namespace nvml::abi;

// Where the build leaves it.
extern const std::string kLibrary;

class NvmlLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = ::dlopen(kLibrary.c_str(), RTLD_LAZY | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
  }
  void TearDown() override {
    while (Call("nvmlShutdown") == kSuccess) {
    }
    ::dlclose(library_);
  }

  // Makes the node that the library finds, and initialises the library on it.
  void Start(const std::string& description) {
    node_ = std::make_unique<TestNode>(description);
    node_->Use();
    ASSERT_EQ(Call("nvmlInit_v2"), kSuccess);
  }
  void MakeNode(const std::string& name, unsigned minor_number) {
    const auto path = node_->folder() / "dev" / name;
    std::filesystem::create_directories(path.parent_path());
    ASSERT_EQ(::mknod(path.c_str(), S_IFCHR | 0666, makedev(195, minor_number)), 0)
        << std::strerror(errno);
  }

  template <class... Arguments>
  Return Call(const char* name, Arguments... arguments) {
    auto* function = reinterpret_cast<Return (*)(Arguments...)>(::dlsym(library_, name));
    if (function == nullptr) {
      ADD_FAILURE() << "no function " << name;
      return kFunctionNotFound;
    }
    return function(arguments...);
  }

  Device Gpu(unsigned index) {
    Device device = nullptr;
    EXPECT_EQ(Call("nvmlDeviceGetHandleByIndex_v2", index, &device), kSuccess);
    return device;
  }
  std::string Uuid(Device device) {
    char uuid[kUuidBufferSize] = {};
    EXPECT_EQ(Call("nvmlDeviceGetUUID", device, uuid, kUuidBufferSize), kSuccess);
    return uuid;
  }

  template <class Change>
  void Change_(Change change) {
    ASSERT_TRUE(node_->file().Update([&](NodeState& state) {
      change(state);
      return true;
    }));
  }

  void* library_ = nullptr;
  std::unique_ptr<TestNode> node_;
};

}  // namespace pitcrew::simulation
