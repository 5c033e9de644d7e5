// What the metrics exporter's text says of GPUs.
#include "dashboard/readings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::dashboard {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Lines as in metrics-exporter.md section 4.3.
TEST(ReadingsTest, AreOfTheGpuThatTheyName) {
  const auto gpus = ReadExposition(
      "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n"
      "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
      "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-60\",pci_bus_id=\"00000000:1B:00.0\","
      "device=\"nvidia0\",modelName=\"NVIDIA H100 80GB HBM3\",hostname=\"node-a\","
      "container=\"main\",namespace=\"default\",pod=\"train-0\"} 41\n"
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-60\",namespace=\"default\",pod=\"train-0\"} 97\n"
      "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-60\"} 1024\n"
      "DCGM_FI_DEV_FB_FREE{gpu=\"0\",UUID=\"GPU-60\"} 80000\n"
      "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-60\"} 118.547000\n"
      "DCGM_FI_DEV_XID_ERRORS{gpu=\"1\",UUID=\"GPU-61\",err_code=\"79\","
      "err_msg=\"GPU has fallen off the bus\"} 79\n");
  ASSERT_EQ(gpus.size(), 2U);
  const GpuWithInstances& first = gpus.at(0);
  EXPECT_EQ(first.uuid, "GPU-60");
  EXPECT_EQ(first.model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(first.reading.temperature, 41);
  EXPECT_EQ(first.reading.utilisation, 97);
  EXPECT_EQ(first.reading.memory_used_mib, 1024);
  EXPECT_EQ(first.reading.memory_free_mib, 80000);
  EXPECT_EQ(first.reading.power, 118.547);
  EXPECT_FALSE(first.reading.xid.has_value());
  EXPECT_THAT(first.reading.pods, ElementsAre("default/train-0"));
  EXPECT_EQ(gpus.at(1).reading.xid, 79);
  EXPECT_THAT(gpus.at(1).reading.pods, IsEmpty());
}

// Temperature, power and utilisation are the whole GPU's also where they stand with an instance;
// memory and XIDs are the instance's (section 3.3).
TEST(ReadingsTest, InstancesAreOfTheirGpu) {
  const std::string instance =
      "gpu=\"2\",UUID=\"GPU-62\",GPU_I_PROFILE=\"3g.40gb\",GPU_I_ID=\"7\",namespace=\"a\",pod="
      "\"b\"";
  const auto gpus = ReadExposition("DCGM_FI_DEV_GPU_TEMP{" + instance + "} 50\n" +
                                   "DCGM_FI_DEV_FB_USED{" + instance + "} 12\n");
  ASSERT_EQ(gpus.size(), 1U);
  const GpuWithInstances& gpu = gpus.at(2);
  EXPECT_EQ(gpu.reading.temperature, 50);
  EXPECT_FALSE(gpu.reading.memory_used_mib.has_value());
  EXPECT_THAT(gpu.reading.pods, IsEmpty());
  ASSERT_EQ(gpu.instances.size(), 1U);
  EXPECT_EQ(gpu.instances.at(7).profile, "3g.40gb");
  EXPECT_EQ(gpu.instances.at(7).reading.memory_used_mib, 12);
  EXPECT_THAT(gpu.instances.at(7).reading.pods, ElementsAre("a/b"));
  const auto json = ToJson(gpus);
  EXPECT_EQ(json[0]["instances"][0]["slices"], 3);
  EXPECT_EQ(json[0]["instances"][0]["id"], 7);
  EXPECT_FALSE(json[0].contains("memoryUsedMiB"));
}

TEST(ReadingsTest, APodThatSharesAGpuIsOneOfSeveral) {
  const auto gpus = ReadExposition(
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",namespace=\"a\",pod=\"x\"} 1\n"
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",namespace=\"a\",pod=\"y\"} 1\n"
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",pod_namespace=\"b\",pod_name=\"old\"} 1\n");
  EXPECT_THAT(gpus.at(0).reading.pods, ElementsAre("a/x", "a/y", "b/old"));
}

// Nothing in a label is escaped, and what is no sample tells nothing.
TEST(ReadingsTest, WhatIsNoSampleIsPassedOver) {
  EXPECT_EQ(ReadExposition("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",label=\"a\"b\"} 7\n")
                .at(0)
                .reading.temperature,
            7);
  for (const char* text :
       {"", "\n\n", "DCGM_FI_DEV_GPU_TEMP 7\n", "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"}\n",
        "DCGM_FI_DEV_GPU_TEMP{gpu=\"x\"} 7\n", "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} NaN\n",
        "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\" 7\n", "DCGM_FI_DEV_GPU_TEMP{gpu=\"0", "{", "{}", "{=\"",
        "OTHER{gpu=\"0\"} 7\n", "<html>not found</html>"}) {
    EXPECT_THAT(ReadExposition(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace pitcrew::dashboard
