#include "node/toolkit/cdi_specs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/testing/elf_file.h"
#include "cdi/driver_annotations.h"
#include "cdi/format.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;

class CdiSpecs : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(::testing::TempDir()) / ("pitcrew-toolkit-cdi-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "driver/dev");
    // No NVML here: the version comes from the library's name.
    ASSERT_TRUE(
        base::WriteFileAtomically(folder_ / "driver/lib/x86_64-linux-gnu/libcuda.so.999.88.77",
                                  base::testing::MakeElfLibrary("libcuda.so.1")));
    options_.driver_root = "/host/driver/root";
    options_.driver_root_container = folder_ / "driver";
    options_.install_folder = "/opt/t";
    options_.cdi_enabled = true;
    options_.cdi_folder = folder_ / "cdi";
    options_.cdi_kind = "example.com/class";
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
  Options options_;
};

TEST_F(CdiSpecs, NoDeviceNodesIsAnError) {
  RecordProperty("holds", "container-toolkit.md #24");
  const auto written = WriteCdiSpecs(options_);
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("no NVIDIA device nodes found"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "cdi"));
}

TEST_F(CdiSpecs, ManagementSpecificationHasHostPaths) {
  RecordProperty("holds", "container-toolkit.md #25");
  const auto node = folder_ / "driver/dev/nvidia0";
  if (::mknod(node.c_str(), S_IFCHR | 0666, ::makedev(195, 0)) != 0) {
    GTEST_SKIP() << "device nodes need root";
  }
  ASSERT_EQ(::chmod(node.c_str(), 0666), 0);
  ASSERT_TRUE(WriteCdiSpecs(options_));
  const auto path = folder_ / "cdi/example.com-class.yaml";
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0644));
  const auto spec = cdi::ParseSpec(*base::ReadFile(path), "spec");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->version, "0.5.0");
  ASSERT_EQ(spec->devices.size(), 1U);
  EXPECT_EQ(spec->devices[0].name, "all");
  EXPECT_EQ(spec->devices[0].edits.device_nodes[0].host_path, "/host/driver/root/dev/nvidia0");
  EXPECT_EQ(spec->edits.mounts[0].host_path,
            "/host/driver/root/lib/x86_64-linux-gnu/libcuda.so.999.88.77");
  EXPECT_EQ(spec->edits.hooks.size(), 3U);
  EXPECT_EQ(spec->edits.hooks[0].path, "/opt/t/toolkit/nvidia-cdi-hook");
  // Nothing is written anew when nothing changed.
  const auto before = fs::last_write_time(path);
  ASSERT_TRUE(WriteCdiSpecs(options_));
  EXPECT_EQ(fs::last_write_time(path), before);
}

TEST_F(CdiSpecs, ATegraSystemIsWhatItsListsName) {
  const auto write = [&](const std::string& inside, const std::string& text) {
    ASSERT_TRUE(base::WriteFileAtomically(folder_ / "driver" / inside, text));
  };
  write("etc/nv_tegra_release", "# R36\n");
  write("etc/nvidia-container-runtime/host-files-for-container.d/devices.csv", "dev, /dev/null\n");
  write("etc/nvidia-container-runtime/host-files-for-container.d/drivers.csv",
        "lib, /usr/lib/tegra/libnvos.so\n");
  write("usr/lib/tegra/libnvos.so", "x");
  options_.dev_root = options_.dev_root_container = "/";
  ASSERT_TRUE(WriteCdiSpecs(options_));
  EXPECT_FALSE(fs::exists(folder_ / "cdi/example.com-class.yaml"));
  const auto spec =
      cdi::ParseSpec(*base::ReadFile(folder_ / "cdi/runtime.nvidia.com-gpu.yaml"), "spec");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->annotations.at(std::string(cdi::kListsFolder)), cdi::kUsualListsFolder);
  ASSERT_EQ(spec->devices.size(), 2U);
  EXPECT_EQ(spec->devices[0].name, "0");
  EXPECT_EQ(spec->devices[0].edits.device_nodes[0].path, "/dev/null");
  ASSERT_EQ(spec->edits.mounts.size(), 2U);
  EXPECT_EQ(spec->edits.mounts[1].host_path, "/host/driver/root/usr/lib/tegra/libnvos.so");
}

// Windows' subsystem for Linux: one device, which every name that a container may ask for means.
TEST_F(CdiSpecs, UnderWslTheRuntimeHasTheOneDevice) {
  RecordProperty("holds", "container-toolkit.md #96");
  if (::geteuid() != 0) GTEST_SKIP() << "device nodes need root";
  const auto copy = [&](const std::string& inside, const fs::path& from) {
    fs::create_directories((folder_ / "driver" / inside).parent_path());
    fs::copy_file(from, folder_ / "driver" / inside);
  };
  copy("usr/lib/wsl/lib/libdxcore.so", PITCREW_FAKE_DXCORE);
  const std::string store = "usr/lib/wsl/drivers/nv_dispi.inf_amd64_1";
  for (const auto* name : {"libcuda.so.1.1", "nvidia-smi"}) {
    ASSERT_TRUE(base::WriteFileAtomically(folder_ / "driver" / store / name, "x"));
  }
  ASSERT_EQ(::mknod((folder_ / "driver/dev/dxg").c_str(), S_IFCHR | 0666, ::makedev(10, 60)), 0);
  ::setenv("FAKE_DXCORE", ("3100=/" + store).c_str(), 1);
  const auto written = WriteCdiSpecs(options_);
  ::unsetenv("FAKE_DXCORE");
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_FALSE(fs::exists(folder_ / "cdi/example.com-class.yaml"));
  const auto spec =
      cdi::ParseSpec(*base::ReadFile(folder_ / "cdi/runtime.nvidia.com-gpu.yaml"), "spec");
  ASSERT_TRUE(spec) << spec.error().message;
  ASSERT_EQ(spec->devices.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(spec->devices[i].name, i == 0 ? "all" : "0");
    ASSERT_EQ(spec->devices[i].edits.device_nodes.size(), 1U);
    EXPECT_EQ(spec->devices[i].edits.device_nodes[0].path, "/dev/dxg");
  }
  EXPECT_EQ(spec->edits.hooks[0].args[3], "/" + store + "/nvidia-smi::/usr/bin/nvidia-smi");
}

// cdi.enabled: false. The runtime needs its specification all the same, and nothing else is
// written.
TEST_F(CdiSpecs, WithoutCdiOnlyTheRuntimesIsWritten) {
  options_.cdi_enabled = false;
  const auto written = WriteCdiSpecs(options_);
  ASSERT_TRUE(written) << "no GPU is no error for an installation without CDI";
  ASSERT_EQ(written->size(), 1U);
  EXPECT_NE(written->front().message.find("NVML does not tell"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "cdi/example.com-class.yaml"));
}

// A specification from before stays when NVML tells nothing now.
TEST_F(CdiSpecs, UnknownGpusDoNotRemoveTheRuntimeSpecification) {
  ASSERT_TRUE(base::WriteFileAtomically(folder_ / "cdi/runtime.nvidia.com-gpu.yaml", "kept"));
  (void)WriteCdiSpecs(options_);
  EXPECT_EQ(*base::ReadFile(folder_ / "cdi/runtime.nvidia.com-gpu.yaml"), "kept");
}

// The driver was loaded anew with another major, and nobody has made its nodes anew.
TEST_F(CdiSpecs, NodesThatOpenAnotherDriverAreLeftOutAndTold) {
  if (::geteuid() != 0) GTEST_SKIP() << "device nodes need root";
  const auto make = [&](const std::string& name, unsigned major) {
    const auto path = folder_ / "driver/dev" / name;
    fs::create_directories(path.parent_path());
    ASSERT_EQ(::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(major, 1)), 0);
  };
  make("nvidia1", 195);
  make("nvidia-uvm", 510);
  make("nvidia-uvm-tools", 511);
  make("nvidia-caps/nvidia-cap1", 236);
  make("nvidia-caps-imex-channels/channel1", 240);  // the kernel lists no driver of it
  options_.proc = folder_ / "proc";
  ASSERT_TRUE(base::WriteFileAtomically(options_.proc / "devices",
                                        "Character devices:\n195 nvidia-frontend\n"
                                        "237 nvidia-caps\n511 nvidia-uvm\n"));
  const auto written = WriteCdiSpecs(options_);
  ASSERT_TRUE(written) << written.error().message;
  std::vector<std::string> told;
  for (const auto& error : *written) {
    if (error.reason == "StaleDeviceNode") {
      told.push_back(error.message.substr(0, error.message.find(' ')));
    }
  }
  EXPECT_EQ(told, (std::vector<std::string>{"/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-uvm"}));
  const auto spec = cdi::ParseSpec(*base::ReadFile(folder_ / "cdi/example.com-class.yaml"), "spec");
  ASSERT_TRUE(spec) << spec.error().message;
  std::vector<std::string> paths;
  for (const auto& node : spec->devices[0].edits.device_nodes) paths.push_back(node.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"/dev/nvidia-uvm-tools", "/dev/nvidia1",
                                             "/dev/nvidia-caps-imex-channels/channel1"}));
}

TEST_F(CdiSpecs, DriverAndGpusAreDescribedForRequirementsOfImages) {
  gpu::Inventory inventory;
  inventory.driver_version = "550.54.15";
  inventory.cuda_version = 12040;
  gpu::Device gpu;
  gpu.index = 1;
  gpu.uuid = "GPU-1";
  gpu.brand = 2;
  gpu.compute_capability = {7, 5};
  gpu.mig_devices.emplace_back().uuid = "MIG-1";
  inventory.devices.push_back(gpu);
  cdi::Spec spec;
  for (const char* name : {"1", "1:0", "GPU-1", "MIG-1", "all", "0"}) {
    spec.devices.push_back({name, {}, {}});
  }
  DescribeDriver(inventory, spec);
  EXPECT_EQ(spec.annotations,
            (cdi::Annotations{{"runtime.nvidia.com/cuda-version", "12.4"},
                              {"runtime.nvidia.com/driver-version", "550.54.15"}}));
  const cdi::Annotations of_gpu = {{"runtime.nvidia.com/brand", "tesla"},
                                   {"runtime.nvidia.com/compute-capability", "7.5"}};
  for (std::size_t i = 0; i < spec.devices.size(); ++i) {
    EXPECT_EQ(spec.devices[i].annotations, i < 4 ? of_gpu : cdi::Annotations())
        << spec.devices[i].name;
  }
}

}  // namespace
}  // namespace pitcrew::node::toolkit
