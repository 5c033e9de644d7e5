#include "cdi/root_transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::cdi {
namespace {

using ::testing::ElementsAre;

TEST(RootTransform, PathsChangeByWholeParts) {
  RecordProperty("holds", "container-toolkit.md #93");
  struct Case {
    const char* path;
    const char* from;
    const char* to;
    const char* changed;
  };
  for (const auto& one :
       {Case{"/a/b/c", "/a/b", "/x", "/x/c"}, Case{"/a/b", "/a/b", "/x", "/x"},
        Case{"/a/bc", "/a/b", "/x", "/a/bc"}, Case{"/a/b/c", "/a/b/", "/x/", "/x/c"},
        Case{"/a/b", "/", "/root", "/root/a/b"}, Case{"/root/dev/d", "/root", "/", "/dev/d"},
        Case{"/root", "/root", "/", "/"}, Case{"/other", "/a", "/x", "/other"},
        Case{"a/b", "/", "/root", "a/b"}}) {
    EXPECT_EQ(TransformPath(one.path, one.from, one.to), one.changed)
        << one.path << ": " << one.from << " to " << one.to;
  }
}

Spec WithEverything() {
  DeviceNode node;
  node.path = "/d/dev/nvidia0";
  ContainerEdits edits;
  edits.device_nodes = {node};
  edits.mounts = {
      {.host_path = "/d/lib/a.so", .container_path = "/d/lib/a.so", .options = {}, .type = ""}};
  edits.hooks = {{"createContainer", "/d/bin/hook", {"hook", "--link", "/d/a::/d/b"}, {}, {}},
                 {"prestart", "/d/bin/hook", {"hook", "/d/x"}, {}, {}},
                 {"startContainer", "/d/bin/inside", {"inside", "/d/y"}, {}, {}}};
  Spec spec;
  spec.kind = "nvidia.com/gpu";
  spec.devices = {{"0", {}, edits}};
  spec.edits.mounts = edits.mounts;
  return spec;
}

TEST(RootTransform, OfTheHostLeavesWhatContainersSee) {
  Spec spec = WithEverything();
  TransformRoot(spec, "/d", "/host", PathsOf::kHost);
  const auto& edits = spec.devices[0].edits;
  EXPECT_EQ(edits.device_nodes[0].path, "/d/dev/nvidia0");
  EXPECT_EQ(edits.device_nodes[0].host_path, "/host/dev/nvidia0");
  EXPECT_EQ(edits.mounts[0].host_path, "/host/lib/a.so");
  EXPECT_EQ(edits.mounts[0].container_path, "/d/lib/a.so");
  EXPECT_EQ(spec.edits.mounts[0].host_path, "/host/lib/a.so");
  EXPECT_EQ(edits.hooks[0].path, "/host/bin/hook");
  EXPECT_THAT(edits.hooks[0].args, ElementsAre("hook", "--link", "/d/a::/d/b"));
  EXPECT_EQ(edits.hooks[1].path, "/host/bin/hook");
  EXPECT_THAT(edits.hooks[1].args, ElementsAre("hook", "/host/x"));
  EXPECT_EQ(edits.hooks[2].path, "/d/bin/inside");
  EXPECT_THAT(edits.hooks[2].args, ElementsAre("inside", "/d/y"));
}

TEST(RootTransform, OfContainersLeavesTheHost) {
  Spec spec = WithEverything();
  TransformRoot(spec, "/d", "/c", PathsOf::kContainer);
  const auto& edits = spec.devices[0].edits;
  EXPECT_EQ(edits.device_nodes[0].path, "/c/dev/nvidia0");
  EXPECT_EQ(edits.device_nodes[0].host_path, "");
  EXPECT_EQ(edits.mounts[0].host_path, "/d/lib/a.so");
  EXPECT_EQ(edits.mounts[0].container_path, "/c/lib/a.so");
  EXPECT_EQ(edits.hooks[0].path, "/d/bin/hook");
  EXPECT_THAT(edits.hooks[0].args, ElementsAre("hook", "--link", "/c/a::/c/b"));
  EXPECT_THAT(edits.hooks[1].args, ElementsAre("hook", "/d/x"));
  EXPECT_EQ(edits.hooks[2].path, "/c/bin/inside");
  EXPECT_THAT(edits.hooks[2].args, ElementsAre("inside", "/c/y"));
}

TEST(RootTransform, TheSameRootChangesNothing) {
  Spec spec = WithEverything();
  TransformRoot(spec, "/d", "/d", PathsOf::kHost);
  EXPECT_EQ(spec, WithEverything());
}

}  // namespace
}  // namespace pitcrew::cdi
