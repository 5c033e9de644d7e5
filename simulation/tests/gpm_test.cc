// Profiling metrics from two samples: metrics-exporter.md section 9.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

#include "simulation/state/incidents.h"
#include "simulation/tests/support_readings.h"

namespace pitcrew::simulation {
namespace {

class Gpm : public ReadingNvml {
 protected:
  // The metrics of the time between two samples.
  std::map<unsigned, GpmMetric> Metrics(std::vector<unsigned> ids,
                                        unsigned instance = kNoInstance) {
    GpmSample samples[2] = {};
    for (auto& sample : samples) {
      EXPECT_EQ(Call("nvmlGpmSampleAlloc", &sample), kSuccess);
      EXPECT_EQ(instance == kNoInstance ? Call("nvmlGpmSampleGet", Gpu(0), sample)
                                        : Call("nvmlGpmMigSampleGet", Gpu(0), instance, sample),
                kSuccess);
    }
    // As callers have it: an array as long as their header's highest metric.
    std::vector<std::byte> memory(offsetof(GpmMetricsGet, metrics) +
                                  gpm::kMetricMax * sizeof(GpmMetric));
    auto& get = *reinterpret_cast<GpmMetricsGet*>(memory.data());
    get = {kGpmVersion, static_cast<unsigned>(ids.size()), samples[0], samples[1], {}};
    auto* metrics = reinterpret_cast<GpmMetric*>(memory.data() + offsetof(GpmMetricsGet, metrics));
    for (std::size_t i = 0; i < ids.size(); ++i) metrics[i].metric_id = ids[i];
    EXPECT_EQ(Call("nvmlGpmMetricsGet", &get), kSuccess);
    std::map<unsigned, GpmMetric> found;
    for (std::size_t i = 0; i < ids.size(); ++i) found[ids[i]] = metrics[i];
    for (const auto sample : samples) EXPECT_EQ(Call("nvmlGpmSampleFree", sample), kSuccess);
    EXPECT_EQ(Call("nvmlGpmSampleFree", samples[0]), kInvalidArgument);
    return found;
  }
};

// metrics-exporter.md section 9.2: the metrics that the exporter asks for.
TEST_F(Gpm, MetricsFollowTheLoad) {
  Start("gpus: [{profile: H100-80, load: 40}]");
  const auto metrics =
      Metrics({gpm::kGraphicsUtil, gpm::kSmUtil, gpm::kAnyTensorUtil, gpm::kDramBandwidthUtil,
               gpm::kPcieTxPerSec, gpm::kNvLinkTotalRxPerSec, gpm::kSmCyclesActive});
  EXPECT_NEAR(metrics.at(gpm::kGraphicsUtil).value, 40, 1);
  for (const auto& [id, metric] : metrics) {
    EXPECT_EQ(metric.nvml_return, kSuccess) << id;
    EXPECT_GT(metric.value, 0) << id;
  }
  EXPECT_LT(metrics.at(gpm::kAnyTensorUtil).value, metrics.at(gpm::kSmUtil).value);
}

TEST_F(Gpm, AGivenValueStands) {
  Start("gpus: [{profile: H100-80, load: 40}]");
  Change_([](NodeState& node) { SetGpmValue(node.gpus[0], gpm::kAnyTensorUtil, 88.5); });
  EXPECT_DOUBLE_EQ(Metrics({gpm::kAnyTensorUtil}).at(gpm::kAnyTensorUtil).value, 88.5);
}

// metrics-exporter.md section 9.1: no PCIe, NVLink or engines for an instance.
TEST_F(Gpm, AnInstanceHasNoMetricsOfTheBoard) {
  Start("gpus: [{profile: H100-80, load: 60, mig: {enabled: true, devices: {1g.10gb: 2}}}]");
  Device mig = nullptr;
  unsigned id = 0;
  ASSERT_EQ(Call("nvmlDeviceGetMigDeviceHandleByIndex", Gpu(0), 0u, &mig), kSuccess);
  ASSERT_EQ(Call("nvmlDeviceGetGpuInstanceId", mig, &id), kSuccess);
  const auto metrics = Metrics({gpm::kGraphicsUtil, gpm::kPcieTxPerSec, gpm::kNvdec0Util}, id);
  EXPECT_NEAR(metrics.at(gpm::kGraphicsUtil).value, 60, 1);
  EXPECT_EQ(metrics.at(gpm::kPcieTxPerSec).nvml_return, kNotSupported);
  EXPECT_TRUE(std::isnan(metrics.at(gpm::kNvdec0Util).value));
  GpmSample sample = nullptr;
  ASSERT_EQ(Call("nvmlGpmSampleAlloc", &sample), kSuccess);
  EXPECT_EQ(Call("nvmlGpmMigSampleGet", Gpu(0), 99u, sample), kNotFound);
}

TEST_F(Gpm, HopperAndLaterOnly) {
  Start("gpus: [{profile: A100-40}]");
  GpmSupport support{kGpmVersion, 9};
  EXPECT_EQ(Call("nvmlGpmQueryDeviceSupport", Gpu(0), &support), kSuccess);
  EXPECT_EQ(support.is_supported, 0u);
  GpmSample sample = nullptr;
  ASSERT_EQ(Call("nvmlGpmSampleAlloc", &sample), kSuccess);
  EXPECT_EQ(Call("nvmlGpmSampleGet", Gpu(0), sample), kNotSupported);
}

TEST_F(Gpm, SamplesMustBeTakenAndOfOneGpu) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  GpmSample first = nullptr;
  GpmSample second = nullptr;
  ASSERT_EQ(Call("nvmlGpmSampleAlloc", &first), kSuccess);
  ASSERT_EQ(Call("nvmlGpmSampleAlloc", &second), kSuccess);
  GpmMetricsGet get{kGpmVersion, 0, first, second, {}};
  EXPECT_EQ(Call("nvmlGpmMetricsGet", &get), kInvalidArgument) << "not taken";
  EXPECT_EQ(Call("nvmlGpmSampleGet", Gpu(0), first), kSuccess);
  EXPECT_EQ(Call("nvmlGpmSampleGet", Gpu(1), second), kSuccess);
  EXPECT_EQ(Call("nvmlGpmMetricsGet", &get), kInvalidArgument) << "of two GPUs";
  get.version = 2;
  EXPECT_EQ(Call("nvmlGpmMetricsGet", &get), kArgumentVersionMismatch);
}

}  // namespace
}  // namespace pitcrew::simulation
