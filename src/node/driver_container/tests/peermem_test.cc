// Whether nvidia-peermem is missing.
#include "node/driver_container/peermem.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::node::driver_container {
namespace {

TEST(PeermemProbe, MissesItWhereTheNetworkDriverIsLoadedAndItIsNot) {
  RecordProperty("holds", "driver-lifecycle.md #114");
  const test_support::TemporaryFolder proc;
  Options options;
  options.places.proc = proc.path();
  const std::string network = "mlx5_core 1 0 - Live 0x0\n";
  const std::string peermem = "nvidia_peermem 1 0 - Live 0x0\n";
  for (const auto& [modules, is_well] :
       {std::pair(std::string("nvidia 1 0 - Live 0x0\n"), true), std::pair(network, false),
        std::pair(peermem, true), std::pair(network + peermem, true)}) {
    proc.Write("modules", modules);
    EXPECT_EQ(ProbePeermem(options).has_value(), is_well) << modules;
  }
}

}  // namespace
}  // namespace pitcrew::node::driver_container
