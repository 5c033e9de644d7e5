// This process as a client of an MPS control daemon (simulation/mps).
#pragma once

#include <memory>

#include "simulation/cuda/driver.h"
#include "simulation/state/mps.h"

namespace pitcrew::simulation::cuda {

class MpsClient {
 public:
  // Null when no daemon listens where the environment says; then CUDA works without MPS.
  static std::unique_ptr<MpsClient> Connect();
  ~MpsClient();
  MpsClient(const MpsClient&) = delete;
  MpsClient& operator=(const MpsClient&) = delete;

  // Whether the daemon still listens. Without it, no client can go on.
  [[nodiscard]] bool IsAlive() const;
  [[nodiscard]] const MpsLimits& limits() const { return limits_; }

 private:
  MpsClient(int fd, MpsLimits limits) : fd_(fd), limits_(std::move(limits)) {}

  int fd_;
  MpsLimits limits_;
};

// Multiprocessors of `all` that this process may use: those of the daemon's limit and of
// $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, rounded up.
[[nodiscard]] std::uint32_t AllowedMultiprocessors(const Driver& driver, std::uint32_t all);
// Bytes that this process may allocate on the device, by the daemon's limit and by
// $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT ("0=1G,1=512M").
[[nodiscard]] std::uint64_t AllowedMemory(const Driver& driver, int ordinal, const View& view);
// kSuccess, or why no context can be made on the GPU now: exclusive to another process, or the
// daemon is gone.
[[nodiscard]] Result MayUse(const Driver& driver, const View& view);

}  // namespace pitcrew::simulation::cuda
