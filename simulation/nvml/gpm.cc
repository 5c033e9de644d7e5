// GPU performance monitoring: two samples, and what happened between them (metrics-exporter.md
// section 9). A sample keeps what the GPU had done until then, so that metrics are averages over
// the time between, as on real GPUs.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "nvml/abi_metrics.h"
#include "simulation/nvml/session.h"
#include "simulation/state/incidents.h"
#include "simulation/state/mig.h"
#include "simulation/state/readings.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

constexpr std::uint32_t kHopper = 9;
constexpr double kMib = 1048576;
// In place of a GPU instance's id.
constexpr std::uint32_t kWholeGpu = pitcrew::simulation::kNoInstance;

struct SampleData {
  bool taken = false;
  std::uint32_t gpu = 0;
  std::uint32_t instance = kWholeGpu;  // GPU instance id
  std::int64_t time = 0;               // nanoseconds since the epoch
  GpuState state{};
};

// Samples by their handle. Freed ones are unknown from then on.
struct Samples {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<SampleData>> known;
};

Samples& AllSamples() {
  struct Keeper {
    Samples* samples = new Samples;
    ~Keeper() {
      if (!Session::InUse()) delete samples;
    }
  };
  static Keeper keeper;
  return *keeper.samples;
}

std::shared_ptr<SampleData> FindSample(const void* handle) {
  const std::lock_guard guard(AllSamples().mutex);
  const auto found = AllSamples().known.find(handle);
  return found == AllSamples().known.end() ? nullptr : found->second;
}

Return TakeSample(Device device, std::uint32_t instance, GpmSample handle) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  const auto sample = FindSample(handle);
  NVML_REQUIRE(sample != nullptr);
  if (target.gpu->architecture < kHopper) return kNotSupported;
  if (instance != kWholeGpu) {
    if (target.gpu->mig_current == 0) return kNotSupported;
    if (FindInstanceById(*target.gpu, instance) == nullptr) return kNotFound;
  }
  *sample = {true, target.handle->gpu, instance, RealtimeNow(), *target.gpu};
  return kSuccess;
}

// The time between two samples.
struct Period {
  const GpuState& gpu;  // as it was at the end
  std::int64_t end;
  bool instance;
  double seconds;
  double load;  // 0 to 1, on average
};

Period Between(const SampleData& first, const SampleData& second) {
  const double seconds = static_cast<double>(second.time - first.time) / 1e9;
  const double busy = BusySeconds(second.state, second.time) - BusySeconds(first.state, first.time);
  return {second.state, second.time, second.instance != kWholeGpu, seconds,
          std::clamp(busy / seconds, 0.0, 1.0)};
}

struct Share {
  unsigned metric;
  double percent;  // at full load
  const char* name;
};
// A mix of training and inference.
constexpr auto kShares = std::to_array<Share>({
    {gpm::kGraphicsUtil, 100, "Graphics Engine Active"},
    {gpm::kSmUtil, 96, "SM Active"},
    {gpm::kSmOccupancy, 52, "SM Occupancy"},
    {gpm::kIntegerUtil, 14, "Integer Active"},
    {gpm::kAnyTensorUtil, 44, "Tensor Active"},
    {gpm::kDfmaTensorUtil, 0, "DFMA Tensor Active"},
    {gpm::kHmmaTensorUtil, 41, "HMMA Tensor Active"},
    {gpm::kDmmaTensorUtil, 0, "DMMA Tensor Active"},
    {gpm::kImmaTensorUtil, 3, "IMMA Tensor Active"},
    {gpm::kDramBandwidthUtil, 60, "DRAM Bandwidth"},
    {gpm::kFp64Util, 1, "FP64 Active"},
    {gpm::kFp32Util, 21, "FP32 Active"},
    {gpm::kFp16Util, 8, "FP16 Active"},
});

// Shares of the cycle counters from kSmCyclesActive on: all, MMA, DMMA, HMMA, IMMA, DFMA; behind
// the PCIe counters integer, FP64, FP32, FP16.
double CycleShare(unsigned metric) {
  switch (metric) {
    case gpm::kSmCyclesActive:
      return 0.96;
    case gpm::kSmCyclesActive + 1:
      return 0.44;
    case gpm::kSmCyclesActive + 3:
      return 0.41;
    case gpm::kSmCyclesActive + 4:
      return 0.03;
    case gpm::kPcieRx + 1:
      return 0.14;
    case gpm::kPcieRx + 2:
      return 0.01;
    case gpm::kPcieRx + 3:
      return 0.21;
    case gpm::kFp16CyclesActive:
      return 0.08;
    default:
      return 0;
  }
}

// A value, or nothing: the GPU does not have it.
using Answer = std::optional<double>;

Answer Engines(std::uint32_t load, unsigned number, unsigned count) {
  if (number >= count) return std::nullopt;
  return load;
}

// Engines, PCIe and NVLink belong to the whole GPU; instances have no metrics of them.
Answer WholeGpuMetric(const Period& period, unsigned metric) {
  const GpuState& gpu = period.gpu;
  if (metric == gpm::kPcieTxPerSec || metric == gpm::kPcieRxPerSec) {
    const auto direction = metric == gpm::kPcieTxPerSec ? Direction::kSent : Direction::kReceived;
    return static_cast<double>(PcieBytesPerSecond(gpu, direction, period.end)) / kMib;
  }
  if (metric >= gpm::kNvdec0Util && metric < gpm::kNvdec0Util + 8) {
    return Engines(gpu.load_decoder, metric - gpm::kNvdec0Util, 7);
  }
  if (metric >= gpm::kNvjpg0Util && metric < gpm::kNvjpg0Util + 8) {
    return Engines(gpu.load_jpeg, metric - gpm::kNvjpg0Util, 7);
  }
  if (metric == gpm::kNvofa0Util || metric == gpm::kNvofa0Util + 1) {
    return Engines(gpu.load_ofa, metric - gpm::kNvofa0Util, 1);
  }
  const double link = static_cast<double>(LinkBytesPerSecond(gpu, period.end)) / kMib;
  if (metric == gpm::kNvLinkTotalRxPerSec || metric == gpm::kNvLinkTotalTxPerSec) {
    if (gpu.link_count == 0) return std::nullopt;
    return link * gpu.link_count;
  }
  if (metric >= gpm::kNvLinkL0RxPerSec && metric <= gpm::kNvLinkL17TxPerSec) {
    if ((metric - gpm::kNvLinkL0RxPerSec) / 2 >= gpu.link_count) return std::nullopt;
    return link;
  }
  if (metric == gpm::kPcieTx || metric == gpm::kPcieRx) {
    const auto direction = metric == gpm::kPcieTx ? Direction::kSent : Direction::kReceived;
    return static_cast<double>(PcieBytes(gpu, direction, period.end));
  }
  return std::nullopt;
}

Answer MetricOf(const Period& period, unsigned metric) {
  if (const double* value = FindGpmValue(period.gpu, metric)) return *value;
  const auto share = std::ranges::find(kShares, metric, &Share::metric);
  if (share != kShares.end()) return share->percent * period.load;
  const bool cycles = metric >= gpm::kSmCyclesElapsed && metric <= gpm::kFp16CyclesActive &&
                      metric != gpm::kPcieTx && metric != gpm::kPcieRx;
  if (cycles) {
    const double hertz = 1e6 * period.gpu.sm_clock_max;
    if (metric == gpm::kSmCyclesElapsed) return hertz * static_cast<double>(period.end) / 1e9;
    return hertz * BusySeconds(period.gpu, period.end) * CycleShare(metric);
  }
  if (period.instance) return std::nullopt;
  return WholeGpuMetric(period, metric);
}

void Fill(const Period& period, GpmMetric& metric) {
  metric.info = {nullptr, nullptr, nullptr};
  metric.value = std::numeric_limits<double>::quiet_NaN();
  if (metric.metric_id == 0 || metric.metric_id >= gpm::kMetricMax) {
    metric.nvml_return = kInvalidArgument;
    return;
  }
  const Answer answer = MetricOf(period, metric.metric_id);
  metric.nvml_return = answer ? kSuccess : kNotSupported;
  if (answer) metric.value = *answer;
  const auto share = std::ranges::find(kShares, metric.metric_id, &Share::metric);
  if (share != kShares.end()) metric.info = {share->name, share->name, "%"};
}

}  // namespace

NVML_API Return nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(support != nullptr);
  if (support->version != kGpmVersion) return kArgumentVersionMismatch;
  support->is_supported = target.gpu->architecture >= kHopper ? 1 : 0;
  return kSuccess;
}

NVML_API Return nvmlGpmSampleAlloc(GpmSample* handle) {
  if (!Session::Get().state()) return kUninitialized;
  NVML_REQUIRE(handle != nullptr);
  auto sample = std::make_shared<SampleData>();
  const std::lock_guard guard(AllSamples().mutex);
  *handle = sample.get();
  AllSamples().known[sample.get()] = std::move(sample);
  return kSuccess;
}

NVML_API Return nvmlGpmSampleFree(GpmSample handle) {
  const std::lock_guard guard(AllSamples().mutex);
  return AllSamples().known.erase(handle) != 0 ? kSuccess : kInvalidArgument;
}

NVML_API Return nvmlGpmSampleGet(Device device, GpmSample handle) {
  return TakeSample(device, kWholeGpu, handle);
}

NVML_API Return nvmlGpmMigSampleGet(Device device, unsigned instance, GpmSample handle) {
  NVML_REQUIRE(instance != kWholeGpu);
  return TakeSample(device, instance, handle);
}

// Of the same GPU or instance, the earlier one first.
NVML_API Return nvmlGpmMetricsGet(GpmMetricsGet* get) {
  if (!Session::Get().state()) return kUninitialized;
  NVML_REQUIRE(get != nullptr);
  if (get->version != kGpmVersion) return kArgumentVersionMismatch;
  const auto first = FindSample(get->first);
  const auto second = FindSample(get->second);
  NVML_REQUIRE(first != nullptr && second != nullptr && first->taken && second->taken);
  NVML_REQUIRE(first->gpu == second->gpu && first->instance == second->instance);
  NVML_REQUIRE(first->time < second->time && get->metric_count < gpm::kMetricMax);
  const Period period = Between(*first, *second);
  for (unsigned i = 0; i < get->metric_count; ++i) Fill(period, get->metrics[i]);
  return kSuccess;
}

// Streaming is not needed for samples that are taken one by one.
NVML_API Return nvmlGpmQueryIfStreamingEnabled(Device device, unsigned* state) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(state != nullptr);
  if (target.gpu->architecture < kHopper) return kNotSupported;
  *state = kFeatureDisabled;
  return kSuccess;
}
