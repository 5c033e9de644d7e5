// Examining all GPUs of a node: each is exercised in a process of its own, with a deadline, so that
// one that hangs costs the others nothing. Memory is tested on all GPUs at once, bandwidths on one
// after the other, as they share buses.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/stop.h"
#include "node/qualification/report.h"

namespace pitcrew::node::qualification {

// What a process of one GPU can be asked for (--part); of two GPUs for the last.
inline constexpr std::string_view kMemoryPart = "memory";
inline constexpr std::string_view kBandwidthsPart = "bandwidths";
inline constexpr std::string_view kPeerPart = "peer";

struct ExamineOptions {
  std::string node;
  std::string memory = "90%";  // ParseAmount
  // For each of the exercises of a GPU.
  std::chrono::nanoseconds deadline = std::chrono::minutes(10);
  bool even_if_used = false;
  // What starts the process of one GPU; "--gpu UUID --part PART --memory AMOUNT" follow.
  std::vector<std::string> helper = {"/proc/self/exe", "validator", "qualify"};
  std::vector<std::filesystem::path> driver_roots = {"/"};
  std::filesystem::path proc = "/proc";
};

// What the node has: asked before anything is done to GPUs. kNotFound "NoGpus"; kConflict
// "GpuInUse" when a process has a GPU, unless that was allowed; NVML's own errors.
struct Found {
  std::string driver_version;
  std::vector<std::string> uuids;
};
base::Result<Found> LookAtGpus(const ExamineOptions& options);

// As LookAtGpus, and kCancelled. What is wrong with a GPU is no error but in the report.
base::Result<Report> Examine(const ExamineOptions& options, const io::StopToken& stop);

// Whether a process of a GPU did not even end when it was killed: then this one has to end by
// std::_Exit.
bool LeftProcessesBehind();

}  // namespace pitcrew::node::qualification
