// Profiling metrics: two samples of a part, and what NVML makes of the time between them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "nvml/loaded_meter.h"

namespace pitcrew::nvml {
namespace {

// The structure with room for every metric that the library may look at.
class MetricsRequest {
 public:
  MetricsRequest(abi::GpmSample first, abi::GpmSample second, const std::vector<unsigned>& numbers)
      : bytes_(offsetof(abi::GpmMetricsGet, metrics) +
               abi::gpm::kMetricMax * sizeof(abi::GpmMetric)) {
    auto* get = request();
    get->version = abi::kGpmVersion;
    get->metric_count =
        static_cast<unsigned>(std::min<std::size_t>(numbers.size(), abi::gpm::kMetricMax));
    get->first = first;
    get->second = second;
    for (unsigned i = 0; i < get->metric_count; ++i) metrics()[i].metric_id = numbers[i];
  }
  abi::GpmMetricsGet* request() { return reinterpret_cast<abi::GpmMetricsGet*>(bytes_.data()); }
  abi::GpmMetric* metrics() {
    return reinterpret_cast<abi::GpmMetric*>(bytes_.data() + offsetof(abi::GpmMetricsGet, metrics));
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

GpmHistory::~GpmHistory() {
  for (const auto& [part, sample] : last_) Free(sample);
}

void GpmHistory::Free(abi::GpmSample sample) const {
  auto* const free = library_->symbols().nvmlGpmSampleFree;
  if (free != nullptr) free(sample);
}

void GpmHistory::Keep(const std::vector<Part>& parts) {
  std::erase_if(last_, [&](const auto& entry) {
    const bool asked = std::ranges::any_of(
        parts, [&](const Part& part) { return part.gpu_instance == entry.first; });
    if (!asked) Free(entry.second);
    return !asked;
  });
}

abi::Return GpmHistory::Take(abi::Device device, const Key& instance,
                             abi::GpmSample* sample) const {
  const Symbols& nvml = library_->symbols();
  const bool complete = nvml.nvmlGpmSampleAlloc != nullptr && nvml.nvmlGpmSampleFree != nullptr &&
                        nvml.nvmlGpmSampleGet != nullptr && nvml.nvmlGpmMetricsGet != nullptr &&
                        (!instance || nvml.nvmlGpmMigSampleGet != nullptr);
  if (!complete) return abi::kFunctionNotFound;
  if (const auto code = nvml.nvmlGpmSampleAlloc(sample); code != abi::kSuccess) return code;
  const auto code = instance ? nvml.nvmlGpmMigSampleGet(device, *instance, *sample)
                             : nvml.nvmlGpmSampleGet(device, *sample);
  if (code != abi::kSuccess) Free(*sample);
  return code;
}

GpmHistory::Metrics GpmHistory::Advance(abi::Device device, const Part& part,
                                        const std::vector<unsigned>& numbers) {
  Metrics metrics;
  const Symbols& nvml = library_->symbols();
  if (!supported_) {
    abi::GpmSupport support{abi::kGpmVersion, 0};
    supported_ = nvml.nvmlGpmQueryDeviceSupport != nullptr &&
                 nvml.nvmlGpmQueryDeviceSupport(device, &support) == abi::kSuccess &&
                 support.is_supported != 0;
  }
  metrics.silence = Silence::kNotSupported;
  if (!*supported_) return metrics;
  abi::GpmSample sample = nullptr;
  if (const auto code = Take(device, part.gpu_instance, &sample); code != abi::kSuccess) {
    if (code != abi::kNotSupported && code != abi::kFunctionNotFound) {
      metrics.silence = code == abi::kNoPermission ? Silence::kNoPermission : Silence::kFailed;
    }
    return metrics;
  }
  const auto before = last_.find(part.gpu_instance);
  if (before == last_.end()) {
    last_[part.gpu_instance] = sample;
    metrics.silence = Silence::kNotYet;
    return metrics;
  }
  MetricsRequest request(before->second, sample, numbers);
  const auto code = nvml.nvmlGpmMetricsGet(request.request());
  Free(before->second);
  before->second = sample;
  metrics.silence = Silence::kFailed;
  if (code != abi::kSuccess) return metrics;
  metrics.silence = Silence::kNotSupported;
  for (unsigned i = 0; i < request.request()->metric_count; ++i) {
    const auto& metric = request.metrics()[i];
    if (metric.nvml_return != abi::kSuccess || std::isnan(metric.value)) continue;
    metrics.values[metric.metric_id] = metric.value;
  }
  return metrics;
}

}  // namespace pitcrew::nvml
