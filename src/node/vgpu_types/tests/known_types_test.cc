#include "node/vgpu_types/known_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::vgpu_types {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

const auto kFirst = *gpu::PciAddress::Parse("0000:41:00.0");
const auto kSecond = *gpu::PciAddress::Parse("0000:42:00.0");

class KnownTypesTest : public ::testing::Test {
 protected:
  const test_support::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "run/nvidia/vgpu/types.json";
};

TEST_F(KnownTypesTest, AreReadAsTheyWereWritten) {
  KnownTypes known;
  known.Learn(kFirst, {{1414, "NVIDIA H200X-1-18C"}, {1420, "NVIDIA H200X-35C"}});
  ASSERT_TRUE(known.Save(file_));
  EXPECT_EQ(KnownTypes::Load(file_), known);
  EXPECT_EQ(known.NameOf(kFirst, 1414), "NVIDIA H200X-1-18C");
  EXPECT_EQ(known.NameOf(kFirst, 7), "");
}

// Whoever follows the file is not told of nothing.
TEST_F(KnownTypesTest, WhatIsThereAlreadyIsNotWritten) {
  KnownTypes known;
  ASSERT_TRUE(known.Save(file_));
  EXPECT_FALSE(std::filesystem::exists(file_)) << "nothing is known";
  known.Learn(kFirst, {{1414, "NVIDIA H200X-1-18C"}});
  ASSERT_TRUE(known.Save(file_));
  const auto written = std::filesystem::last_write_time(file_);
  std::filesystem::last_write_time(file_, written - std::chrono::hours(1));
  ASSERT_TRUE(known.Save(file_));
  EXPECT_EQ(std::filesystem::last_write_time(file_), written - std::chrono::hours(1));
}

TEST_F(KnownTypesTest, AnIdMeansNothingOnAnotherGpu) {
  KnownTypes known;
  known.Learn(kFirst, {{1414, "NVIDIA H200X-1-18C"}});
  EXPECT_EQ(known.NameOf(kSecond, 1414), "");
  EXPECT_THAT(known.Of(kSecond), IsEmpty());
}

TEST_F(KnownTypesTest, WhatIsToldNowCounts) {
  KnownTypes known;
  known.Learn(kFirst, {{1414, "NVIDIA H200X-1-18C"}});
  known.Learn(kFirst, {{1414, "NVIDIA H200X-1-18CME"}});
  EXPECT_EQ(known.NameOf(kFirst, 1414), "NVIDIA H200X-1-18CME");
  KnownTypes older;
  older.Learn(kFirst, {{1414, "old"}, {1428, "NVIDIA H200X-141C"}});
  known.Learn(older);
  EXPECT_THAT(known.Of(kFirst),
              ElementsAre(Pair(1414, "NVIDIA H200X-1-18CME"), Pair(1428, "NVIDIA H200X-141C")));
}

TEST_F(KnownTypesTest, AFileOfSomethingElseTellsNothing) {
  for (const std::string text :
       {"", "[]", "{", "{\"0000:41:00.0\": 3}", "{\"somewhere\": {\"1414\": \"a\"}}",
        "{\"0000:41:00.0\": {\"0\": \"a\", \"x\": \"b\", \"1414\": 5, \"99999999999\": \"c\"}}",
        "{\"0x233510DE\": {\"1414\": \"H200X-1-18C\"}}"}) {
    folder_.Write("run/nvidia/vgpu/types.json", text);
    EXPECT_EQ(KnownTypes::Load(file_), KnownTypes()) << text;
  }
}

}  // namespace
}  // namespace pitcrew::node::vgpu_types
