// Fuzz targets: parsers that read what others wrote, called with any bytes. One program has all of
// them; libfuzzer.cc and replay.cc are its two ways to get inputs.
#pragma once

#include <span>
#include <string_view>

namespace pitcrew::fuzz {

struct Target {
  std::string_view name;  // also the folder of its inputs: tests/fuzz/corpus/<name>
  // Must return whatever the input is. What has to hold beyond that is said with Check.
  void (*run)(std::string_view input);
};

std::span<const Target> CodecTargets();
std::span<const Target> KubeTargets();
std::span<const Target> ContainerTargets();
std::span<const Target> ImageTargets();
std::span<const Target> NodeTargets();
std::span<const Target> ClusterTargets();
std::span<const Target> IoTargets();

// Null when there is no target of that name.
const Target* FindTarget(std::string_view name);
// The names of all, one a line.
void PrintTargets();

// Ends the process with `what` unless it holds: the input is a finding.
void Check(bool holds, std::string_view what);

}  // namespace pitcrew::fuzz
