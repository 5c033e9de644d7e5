#include "codec/toml.h"

#include <gtest/gtest.h>

namespace pitcrew::codec {
namespace {

// container-toolkit.md 2.1 and the example of 4.11.
TEST(Toml, LayoutOfUpstreamsWriter) {
  const auto value = ParseToml(
      "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\n"
      "runtime_type = 'io.containerd.runc.v2'\nprivileged_without_host_devices=false\n"
      "options = {BinaryName = \"/opt/t/toolkit/nvidia-container-runtime\"}\n");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(ToTomlText(*value), R"(version = 2

[plugins]

  [plugins."io.containerd.grpc.v1.cri"]

    [plugins."io.containerd.grpc.v1.cri".containerd]

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes]

        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
          privileged_without_host_devices = false
          runtime_type = "io.containerd.runc.v2"

          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
            BinaryName = "/opt/t/toolkit/nvidia-container-runtime"
)");
}

TEST(Toml, ScalarsArraysAndEmptyTables) {
  const auto value = ParseToml(
      "# comment\nb = [\"a\", 'b']\na = 3.0\nc = []\nd = "
      "\"x\\u0001\\\"\"\n[e]\n[[f]]\ng=1\n[[f]]\n");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(ToTomlText(*value),
            "a = 3.0\nb = [\"a\", \"b\"]\nc = []\nd = \"x\\u0001\\\"\"\n\n[e]\n\n[[f]]\n  g = 1\n"
            "\n[[f]]\n");
  EXPECT_EQ(*ParseToml(ToTomlText(*value)), *value);
  EXPECT_EQ(ToTomlText(Json::object()), "");
}

// A document without a plain value at its root starts with an empty line.
TEST(Toml, FirstLineIsEmptyWithoutRootValues) {
  EXPECT_EQ(ToTomlText({{"crio", {{"runtime", {{"x", 1}}}}}}),
            "\n[crio]\n\n  [crio.runtime]\n    x = 1\n");
}

// What the library asserts instead of telling.
TEST(Toml, AKeyThatBeginsWithADotIsAnError) {
  for (const char* text : {"[.a]", "[[.a]]", "[ =]\n", "a = 1\n[[.r\".s = t]]"}) {
    const auto value = ParseToml(text);
    ASSERT_FALSE(value) << text;
    EXPECT_NE(value.error().message.find("expected bare key"), std::string::npos)
        << value.error().message;
  }
}

// What the library takes for impossible: U+FE66 to U+FEFE, which are no white space.
TEST(Toml, LettersAtTheEndOfThePlaneAreAnError) {
  for (const char* text : {"\uFE66 = 1", "\uFEBF", "a = 1 \uFEFE\n", "[a]\uFEA0\n"}) {
    EXPECT_FALSE(ParseToml(text)) << text;
  }
  const auto quoted = ParseToml("a = '\uFEBF' # \uFEBF\n");
  ASSERT_TRUE(quoted) << quoted.error().message;
  EXPECT_EQ((*quoted)["a"], "\uFEBF");
}

TEST(Toml, ErrorsNameSourceLineAndColumn) {
  const auto value = ParseToml("version = 2\nimports = [\n", "/etc/containerd/config.toml");
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().reason, "InvalidToml");
  EXPECT_TRUE(value.error().message.starts_with("/etc/containerd/config.toml:"))
      << value.error().message;
}

}  // namespace
}  // namespace pitcrew::codec
