// The meter on the loaded library; private to this room.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "nvml/library.h"
#include "nvml/meter.h"

namespace pitcrew::nvml {

// The last profiling sample of each part of one GPU. Used by one call at a time, which may be left
// behind in the library with it.
class GpmHistory {
 public:
  explicit GpmHistory(std::shared_ptr<LoadedLibrary> library) : library_(std::move(library)) {}
  ~GpmHistory();
  GpmHistory(const GpmHistory&) = delete;
  GpmHistory& operator=(const GpmHistory&) = delete;

  // The metrics of the time since the last call for this part, by their numbers. Not there: the GPU
  // has no such metrics. Silence::kNotYet for each at the first call.
  struct Metrics {
    std::map<unsigned, Answer> values;
    std::optional<Silence> silence;  // for those that are not in `values`
  };
  Metrics Advance(abi::Device device, const Part& part, const std::vector<unsigned>& numbers);
  // Forgets all other parts.
  void Keep(const std::vector<Part>& parts);

 private:
  using Key = std::optional<unsigned>;  // GPU instance
  abi::Return Take(abi::Device device, const Key& instance, abi::GpmSample* sample) const;
  void Free(abi::GpmSample sample) const;

  const std::shared_ptr<LoadedLibrary> library_;
  std::optional<bool> supported_;
  std::map<Key, abi::GpmSample> last_;
};

// One GPU's answers. kUnavailable "GpuIsLost" and the like when the GPU does not answer at all.
base::Result<GpuAnswers> ReadParts(LoadedLibrary& library, GpmHistory& history,
                                   const GpuQuestions& questions);

}  // namespace pitcrew::nvml
