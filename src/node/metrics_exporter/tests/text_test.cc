// Series as text, byte for byte.
#include "node/metrics_exporter/text.h"

#include <gtest/gtest.h>

#include "node/metrics_exporter/pod_map.h"
#include "node/metrics_exporter/values.h"

namespace pitcrew::node::metrics_exporter {
namespace {

constexpr const char* kUuid = "GPU-test-uuid-0000-0000-0000-000000000000";
const std::string kHead = "# HELP TEST_METRIC \n# TYPE TEST_METRIC gauge\n";

Entity TestEntity(Group group) {
  Entity entity;
  entity.group = group;
  entity.number = "0";
  entity.uuid = kUuid;
  entity.device = "testdevice";
  entity.model = "Test GPU Model";
  return entity;
}

std::string Write(const Entity& entity, const TextOptions& options = {.hostname = "testhost"},
                  const Owners& owners = {}) {
  Round round;
  round.entities = {entity};
  Counter counter;
  counter.name = "TEST_METRIC";
  counter.type = "gauge";
  round.families = {{counter, {{0, "42", {}}}, ""}};
  return ToText(round, {owners}, options);
}

TEST(Text, EveryGroupHasItsLabelsInUpstreamsOrder) {
  RecordProperty("holds", "metrics-exporter.md #15");
  EXPECT_EQ(Write(TestEntity(Group::kGpu)),
            kHead + "TEST_METRIC{gpu=\"0\",UUID=\"" + kUuid +
                "\",pci_bus_id=\"\",device=\"testdevice\",modelName=\"Test GPU Model\","
                "hostname=\"testhost\"} 42\n");
  EXPECT_EQ(Write(TestEntity(Group::kSwitch)),
            kHead + "TEST_METRIC{nvswitch=\"0\",hostname=\"testhost\"} 42\n");
  auto link = TestEntity(Group::kLink);
  link.link = "0";
  link.parent_switch = "0";
  EXPECT_EQ(Write(link), kHead + "TEST_METRIC{nvlink=\"0\",nvswitch=\"0\",gpu=\"0\",gpu_uuid=\"" +
                             kUuid +
                             "\",device=\"testdevice\",model_name=\"Test GPU Model\","
                             "hostname=\"testhost\"} 42\n");
  EXPECT_EQ(Write(TestEntity(Group::kCpu)),
            kHead + "TEST_METRIC{cpu=\"0\",hostname=\"testhost\"} 42\n");
  EXPECT_EQ(Write(TestEntity(Group::kCpuCore)),
            kHead + "TEST_METRIC{cpucore=\"0\",cpu=\"testdevice\",hostname=\"testhost\"} 42\n");
}

TEST(Text, InstancesStandBehindTheModel) {
  RecordProperty("holds", "metrics-exporter.md #21, #23");
  auto instance = TestEntity(Group::kGpu);
  instance.profile = "1g.10gb";
  instance.gpu_instance = "7";
  EXPECT_EQ(Write(instance, {.old_namespace = true}),
            kHead + "TEST_METRIC{gpu=\"0\",uuid=\"" + kUuid +
                "\",pci_bus_id=\"\",device=\"testdevice\",modelName=\"Test GPU Model\","
                "GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"7\"} 42\n");
}

TEST(Text, LabelsThenAttributesEachByName) {
  auto entity = TestEntity(Group::kCpu);
  entity.info = {{"DCGM_FI_DRIVER_VERSION", "580"}};
  Owners owners;
  owners.of = {{.labels = {{"app", "x"}, {"pod", "label"}},
                .attributes = {{"pod", "p"}, {"namespace", "n"}, {"container", "c"}, {"vgpu", ""}},
                .values = {}}};
  EXPECT_EQ(Write(entity, {}, owners),
            kHead +
                "TEST_METRIC{cpu=\"0\",DCGM_FI_DRIVER_VERSION=\"580\",app=\"x\","
                "container=\"c\",namespace=\"n\",pod=\"p\"} 42\n");
}

TEST(Text, LabelValuesMayHoldAnything) {
  auto entity = TestEntity(Group::kCpu);
  entity.info = {{"x", "a\"b\\c\nd"}};
  EXPECT_EQ(Write(entity, {}), kHead + "TEST_METRIC{cpu=\"0\",x=\"a\\\"b\\\\c\\nd\"} 42\n");
}

TEST(Text, AMetricWithoutSeriesIsACommentWithTheReason) {
  RecordProperty("holds", "metrics-exporter.md #18");
  Round round;
  Counter counter;
  counter.name = "DCGM_FI_DEV_FAN_SPEED";
  counter.type = "gauge";
  round.families = {{counter, {}, "not supported by these GPUs"}};
  EXPECT_EQ(ToText(round, {}, {}),
            "# DCGM_FI_DEV_FAN_SPEED has no value: not supported by these GPUs\n");
}

ValueText Format(FieldType type, const nvml::Answer& answer) {
  return FormatValue(type, Convert(Conversion::kAsIs, answer));
}

TEST(Values, AreWrittenByTheTypeOfTheirField) {
  RecordProperty("holds", "metrics-exporter.md #16");
  EXPECT_EQ(Format(FieldType::kInteger, std::int64_t{42}), "42");
  EXPECT_EQ(Format(FieldType::kDouble, 36.5), "36.500000");
  EXPECT_EQ(Format(FieldType::kText, std::string("Valid String")), "Valid String");
}

TEST(Values, WhatDcgmCallsBlankIsNone) {
  RecordProperty("holds", "metrics-exporter.md #17");
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(Format(FieldType::kInteger, std::int64_t{9223372036854775792} + i)) << i;
    EXPECT_FALSE(Format(FieldType::kDouble, 140737488355328.0 + static_cast<double>(i))) << i;
  }
  for (const auto* text :
       {"<<<NULL>>>", "<<<NOT_FOUND>>>", "<<<NOT_SUPPORTED>>>", "<<<NOT_PERMISSIONED>>>"}) {
    EXPECT_FALSE(Format(FieldType::kText, std::string(text))) << text;
  }
  EXPECT_TRUE(Format(FieldType::kInteger, std::int64_t{42}));
  EXPECT_TRUE(Format(FieldType::kDouble, 3.14));
  // Upstream drops these: the blanks of 32-bit numbers.
  EXPECT_EQ(Format(FieldType::kInteger, std::int64_t{2147483632}), "2147483632");
}

TEST(Values, AreInTheFieldsUnits) {
  RecordProperty("holds", "metrics-exporter.md #48, #49, #51");
  const auto converted = [](FieldType type, Conversion conversion, const nvml::Answer& answer) {
    return FormatValue(type, Convert(conversion, answer));
  };
  EXPECT_EQ(converted(FieldType::kDouble, Conversion::kThousandth, std::int64_t{118547}),
            "118.547000");
  EXPECT_EQ(converted(FieldType::kInteger, Conversion::kMebibytes, std::int64_t{1073741824}),
            "1024");
  EXPECT_FALSE(converted(FieldType::kInteger, Conversion::kTemperature, std::int64_t{255}));
  EXPECT_EQ(converted(FieldType::kInteger, Conversion::kTemperature, std::int64_t{41}), "41");
  EXPECT_EQ(converted(FieldType::kInteger, Conversion::kComputeMode, std::int64_t{3}), "2");
  EXPECT_EQ(converted(FieldType::kDouble, Conversion::kBitErrorRate, std::int64_t{0x0f02}),
            "0.150000");
}

TEST(Values, ProfilingMetricsAreRatiosAndBytes) {
  RecordProperty("holds", "metrics-exporter.md #50");
  EXPECT_EQ(FormatValue(FieldType::kDouble, Convert(Conversion::kPercentToRatio, 37.5)),
            "0.375000");
  EXPECT_EQ(FormatValue(FieldType::kInteger, Convert(Conversion::kMebibytesPerSecond, 10.0)),
            "10485760");
  EXPECT_EQ(Convert(Conversion::kPercentToRatio, nvml::Silence::kNotYet).error(),
            "it comes with the next round");
}

TEST(Values, XidsHaveMessages) {
  EXPECT_EQ(XidMessage(79), "GPU has fallen off the bus");
  EXPECT_EQ(XidMessage(172), "Uncorrectable SRAM Error");
  EXPECT_EQ(XidMessage(9999), "Unknown Error");
}

TEST(Values, BlanksOfModelNamesAreReplaced) {
  RecordProperty("holds", "metrics-exporter.md #22");
  EXPECT_EQ(ReplaceBlanks("NVIDIA  T400 4GB"), "NVIDIA-T400-4GB");
  EXPECT_EQ(ReplaceBlanks("  NVIDIA H100 "), "NVIDIA-H100");
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter
