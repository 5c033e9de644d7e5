// Which GPUs are fit for work (device-plugin.md section 14), and when they are fit again: upstream
// never takes an "unhealthy" back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gpu/xid_policy.h"
#include "node/device_plugin/resources.h"
#include "nvml/nvml.h"

namespace pitcrew::node::device_plugin {

// How long no further error may come before a GPU counts as quiet.
inline constexpr std::chrono::seconds kQuietPeriod{60};

// Pure; not thread-safe.
class HealthState {
 public:
  HealthState(std::vector<std::string> gpu_uuids, gpu::XidPolicy policy);

  // An event of NVML. True when a device's health changed. An XID whose GPU is unknown to NVML
  // itself makes every GPU unfit until it answers.
  bool OnEvent(const nvml::Event& event, base::SteadyClock::time_point now);
  // A GPU answered a cheap call, or did not. True when a device's health changed.
  bool OnProbe(const std::string& gpu_uuid, bool answers, base::SteadyClock::time_point now);

  [[nodiscard]] bool IsHealthy(const OfferedDevice& device) const;
  // GPUs with a cause that a probe can take away.
  [[nodiscard]] std::vector<std::string> Recoverable() const;
  [[nodiscard]] const std::vector<std::string>& gpus() const { return gpus_; }
  // Why a GPU is unfit, for the log; empty when it is fit.
  [[nodiscard]] std::string ReasonOf(const std::string& gpu_uuid) const;

 private:
  struct Cause {
    gpu::XidEffect effect = gpu::XidEffect::kUntilReset;
    std::uint64_t xid = 0;  // 0: the GPU does not answer
    // nvml::kNoInstance: the whole GPU.
    std::uint32_t gpu_instance = nvml::kNoInstance;
    std::uint32_t compute_instance = nvml::kNoInstance;
    base::SteadyClock::time_point last;
  };
  bool Add(const std::string& gpu_uuid, const Cause& cause);

  std::vector<std::string> gpus_;
  gpu::XidPolicy policy_;
  std::map<std::string, std::vector<Cause>> causes_;  // by GPU; never an empty list
};

}  // namespace pitcrew::node::device_plugin
