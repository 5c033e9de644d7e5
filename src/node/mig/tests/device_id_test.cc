#include "node/mig/device_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::node::mig {
namespace {

using ::testing::HasSubstr;

const DeviceId kH100{0x233010DE, 0x16C010DE};

TEST(DeviceIdTest, AFilterMeansHardware) {
  RecordProperty("holds", "mig-manager.md #11");
  EXPECT_TRUE(kH100.IsMeantBy("0x233010DE"));
  EXPECT_TRUE(kH100.IsMeantBy("0x233010DE:0x16C010DE"));
  EXPECT_FALSE(kH100.IsMeantBy("0x233010DE:0x16C110DE"));
  EXPECT_FALSE(kH100.IsMeantBy("0x233010DE:0x16C010DE:extra"));
  EXPECT_FALSE(kH100.IsMeantBy("0x20B010DE"));
  EXPECT_TRUE(kH100.IsMeantByAny({""}));
  EXPECT_TRUE(kH100.IsMeantByAny({}));
  EXPECT_TRUE(kH100.IsMeantByAny({"0x233010DE:0x16C110DE", "0x233010DE:0x16C010DE"}));
  EXPECT_FALSE(kH100.IsMeantByAny({"0x233010DE:0x16C110DE", "0x20B010DE"}));
}

TEST(DeviceIdTest, IsParsed) {
  RecordProperty("holds", "mig-manager.md #12");
  const auto id = DeviceId::Parse("0x25B610DE");
  ASSERT_TRUE(id) << id.error().ToString();
  EXPECT_EQ(id->device, 0x25B6U << 16 | 0x10DE);
  EXPECT_EQ(id->subsystem, std::nullopt);
  EXPECT_THAT(DeviceId::Parse("not-a-device-id").error().message,
              HasSubstr("unable to create DeviceID"));
  EXPECT_THAT(DeviceId::Parse("0x25B610DE:not-a-subsystem").error().message,
              HasSubstr("unable to create Subsystem"));
  EXPECT_THAT(DeviceId::Parse("0x25B610DE:0x14A910DE:extra").error().message,
              HasSubstr("invalid DeviceID format"));
}

TEST(DeviceIdTest, NumbersAreThoseOfGo) {
  EXPECT_EQ(DeviceId::Parse("0X25b610dE")->device, 0x25B610DEU);
  EXPECT_EQ(DeviceId::Parse("632688862")->device, 0x25B610DEU);
  EXPECT_EQ(DeviceId::Parse("0x25B6_10DE")->device, 0x25B610DEU);
  EXPECT_EQ(DeviceId::Parse("0o17")->device, 15U);
  EXPECT_EQ(DeviceId::Parse("017")->device, 15U);
  EXPECT_EQ(DeviceId::Parse("0b11")->device, 3U);
  EXPECT_EQ(DeviceId::Parse("0")->device, 0U);
  for (const auto* bad : {"", "0x", "0x1_", "_1", "1__0", "0x125B610DE", "-1", "+1", "08", " 1"}) {
    EXPECT_FALSE(DeviceId::Parse(bad)) << bad;
  }
}

TEST(DeviceIdTest, IsPrinted) {
  RecordProperty("holds", "mig-manager.md #13");
  EXPECT_EQ((DeviceId{0x25B610DE, {}}).ToString(), "0x25B610DE");
  EXPECT_EQ((DeviceId{0x25B610DE, 0x14A910DE}).ToString(), "0x25B610DE:0x14A910DE");
}

TEST(DeviceIdTest, ASubsystemOfZerosIsOne) {
  RecordProperty("holds", "mig-manager.md #14");
  const DeviceId nameless{0x233010DE, 0};
  EXPECT_FALSE(nameless.IsMeantBy("0x233010DE:0x16C010DE"));
  EXPECT_TRUE(nameless.IsMeantBy("0x233010DE:0x00000000"));
  EXPECT_FALSE(kH100.IsMeantBy("0x233010DE:0x00000000"));
}

TEST(DeviceIdTest, HalvesArePacked) {
  RecordProperty("holds", "mig-manager.md #15");
  EXPECT_EQ(*DeviceId::Parse("0x25B610DE"), (DeviceId{0x25B610DE, {}}));
  EXPECT_EQ((DeviceId{0x25B610DE, 0x14A910DE}).Primary(), (DeviceId{0x25B610DE, {}}));
}

}  // namespace
}  // namespace pitcrew::node::mig
