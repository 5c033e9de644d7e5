// The two framings between a container runtime and its NRI plugins: the trunk, which carries
// several logical connections over one socket, and ttrpc on each of them
// (runtimes-and-distributions.md 9.2 and 10.1). Neither does any input or output.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::nri {

// Logical connections: the runtime calls the plugin on the first, the plugin the runtime on the
// second.
constexpr std::uint32_t kPluginConnection = 1;
constexpr std::uint32_t kRuntimeConnection = 2;

constexpr std::size_t kCallHeaderBytes = 10;
constexpr std::size_t kLongestCall = 4U << 20U;  // of a ttrpc message's data, in bytes
// What a Go peer can take of a message that it has not begun to read, in bytes.
constexpr std::size_t kFirstTrunkFrame = 4096;

// A ttrpc message as frames of the trunk: the first at most kFirstTrunkFrame bytes, the rest as a
// second.
std::string ToTrunk(std::uint32_t connection, std::string_view message);

// Takes the trunk apart, whatever the borders of the pieces that arrive.
class TrunkReader {
 public:
  using Take = std::function<void(std::uint32_t connection, std::string_view piece)>;
  // Hands every piece of payload on, in order. kInvalid "NriTrunk": a frame is longer than NRI
  // allows; what follows cannot be understood.
  base::Status Feed(std::string_view bytes, const Take& take);

 private:
  std::string header_;  // of the next frame, as far as it has come
  std::uint32_t connection_ = 0;
  std::size_t left_ = 0;  // payload of the current frame that has not come yet
};

enum class CallType : std::uint8_t { kRequest = 1, kResponse = 2, kData = 3 };

struct CallMessage {
  std::uint32_t stream = 0;
  std::uint8_t type = 0;
  std::string data{};
  bool too_long = false;  // more than kLongestCall; `data` was skipped
};

// `data` must not be longer than kLongestCall.
std::string ToCall(CallType type, std::uint32_t stream, std::string_view data);

// Puts the messages of one logical connection together again. Holds at most one message.
class CallReader {
 public:
  using Take = std::function<void(CallMessage&& message)>;
  void Feed(std::string_view bytes, const Take& take);

 private:
  std::string header_;
  CallMessage message_;
  std::size_t left_ = 0;
};

}  // namespace pitcrew::nri
