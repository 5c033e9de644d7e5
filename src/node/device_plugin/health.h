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
#include "base/error.h"
#include "gpu/xid_policy.h"
#include "node/device_plugin/resources.h"
#include "nvml/nvml.h"

namespace pitcrew::node::device_plugin {

// How long no further error may come before a GPU counts as quiet.
inline constexpr std::chrono::seconds kQuietPeriod{60};

// Why a GPU, or a MIG device of it, is unfit.
struct HealthCause {
  enum class Kind {
    kXid,       // `xid` was reported; `effect` says what ends it
    kSilent,    // NVML cannot reach the GPU; ends when it can
    kRecovery,  // the driver itself says what has to be done; ends when it no longer does
    kWornOut,   // the memory has no rows left to remap to; ends with the board
  };
  Kind kind = Kind::kXid;
  std::uint64_t xid = 0;
  gpu::XidEffect effect = gpu::XidEffect::kUntilReset;
  // nvml::kNoInstance: the whole GPU.
  std::uint32_t gpu_instance = nvml::kNoInstance;
  std::uint32_t compute_instance = nvml::kNoInstance;
  // It is off the bus, from where only a reset brings it back.
  bool lost = false;
  base::SteadyClock::time_point last;  // when it was seen last
  std::string detail;                  // for a person

  // The same trouble, apart from when it was seen.
  [[nodiscard]] bool IsSameAs(const HealthCause& other) const;
};

// What is known of one GPU.
struct GpuHealth {
  std::vector<HealthCause> causes;  // in the order in which they came
  nvml::Condition condition;        // as last read; what changes in it tells of a reset
};

// Pure; not thread-safe. What is known of a GPU stays known whether or not it is watched.
class HealthState {
 public:
  explicit HealthState(gpu::XidPolicy policy) : policy_(std::move(policy)) {}

  // The GPUs that an XID may be of when NVML cannot tell.
  void Watch(std::vector<std::string> gpu_uuids) { watched_ = std::move(gpu_uuids); }
  [[nodiscard]] const std::vector<std::string>& watched() const { return watched_; }

  // An event of NVML. True when what is wrong with a GPU changed. An XID whose GPU is unknown to
  // NVML itself makes every GPU unfit until it answers.
  bool OnEvent(const nvml::Event& event, base::SteadyClock::time_point now);
  // A GPU answered, or did not. True when what is wrong with it changed.
  bool OnAnswer(const std::string& gpu_uuid, const nvml::Condition& condition,
                base::SteadyClock::time_point now);
  // What the driver says, where that is to end nothing: just after an event, an answer is no news.
  bool OnCondition(const std::string& gpu_uuid, const nvml::Condition& condition,
                   base::SteadyClock::time_point now);
  bool OnSilence(const std::string& gpu_uuid, const base::Error& error,
                 base::SteadyClock::time_point now);

  [[nodiscard]] bool IsHealthy(const OfferedDevice& device) const;
  // Watched GPUs with a cause: those to ask again.
  [[nodiscard]] std::vector<std::string> Unfit() const;
  // Why a GPU is unfit, for a person; empty when it is fit.
  [[nodiscard]] std::string ReasonOf(const std::string& gpu_uuid) const;

  // For a process that goes on where another one ended: by GPU, only those of which there is
  // something to remember.
  [[nodiscard]] const std::map<std::string, GpuHealth>& known() const { return gpus_; }
  void Restore(std::map<std::string, GpuHealth> known) { gpus_ = std::move(known); }

 private:
  bool Add(const std::string& gpu_uuid, HealthCause cause);

  gpu::XidPolicy policy_;
  std::vector<std::string> watched_;
  std::map<std::string, GpuHealth> gpus_;
};

}  // namespace pitcrew::node::device_plugin
