// What the simulated MPS control daemon and its clients, processes with the CUDA library, agree on:
// where they meet, and what a client may use (device-plugin.md section 17).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace pitcrew::simulation {

// Where nobody says otherwise.
inline constexpr const char* kMpsPipeFolder = "/tmp/nvidia-mps";
inline constexpr const char* kMpsLogFolder = "/var/log/nvidia-mps";
inline constexpr const char* kMpsPipeVariable = "CUDA_MPS_PIPE_DIRECTORY";
inline constexpr const char* kMpsLogVariable = "CUDA_MPS_LOG_DIRECTORY";

// $CUDA_MPS_PIPE_DIRECTORY, and the socket in it that the daemon listens on.
[[nodiscard]] std::filesystem::path MpsPipeFolder();
[[nodiscard]] std::filesystem::path MpsSocket();

// The line with which a client says hello; its process id follows. Every other line is a command.
inline constexpr std::string_view kMpsClientHello = "client ";
// The line behind an answer.
inline constexpr std::string_view kMpsEndOfAnswer = ".";

// What a client may use.
struct MpsLimits {
  double active_thread_percentage = 100;
  // Bytes by GPU UUID. Absent: no limit.
  std::map<std::string, std::uint64_t> pinned_memory;

  // One line: "<percentage> <UUID>=<bytes> ...".
  [[nodiscard]] std::string ToText() const;
  // nullopt for a line that ToText does not write.
  static std::optional<MpsLimits> Parse(std::string_view text);
  bool operator==(const MpsLimits&) const = default;
};

// "512M", "2G", "100MB", "4096" (bytes); nullopt for anything else.
[[nodiscard]] std::optional<std::uint64_t> ParseMemoryLimit(std::string_view text);
// Above 0, at most 100.
[[nodiscard]] std::optional<double> ParseThreadPercentage(std::string_view text);

}  // namespace pitcrew::simulation
