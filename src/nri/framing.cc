#include "nri/framing.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pitcrew::nri {
namespace {

constexpr std::size_t kTrunkHeaderBytes = 8;
constexpr std::size_t kLongestTrunkFrame = kCallHeaderBytes + kLongestCall;

void AppendBigEndian(std::string& text, std::uint32_t number) {
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    text.push_back(static_cast<char>((number >> shift) & 0xffU));
  }
}

std::uint32_t BigEndian(std::string_view bytes) {
  std::uint32_t number = 0;
  for (const char byte : bytes.substr(0, 4)) {
    number = (number << 8U) | static_cast<unsigned char>(byte);
  }
  return number;
}

// Moves bytes to a header that is to have `size` of them. Whether it has.
bool Complete(std::string& header, std::size_t size, std::string_view& bytes) {
  const auto count = std::min(size - header.size(), bytes.size());
  header.append(bytes.substr(0, count));
  bytes.remove_prefix(count);
  return header.size() == size;
}

}  // namespace

std::string ToTrunk(std::uint32_t connection, std::string_view message) {
  std::string frames;
  const auto add = [&](std::string_view payload) {
    AppendBigEndian(frames, connection);
    AppendBigEndian(frames, static_cast<std::uint32_t>(payload.size()));
    frames += payload;
  };
  add(message.substr(0, kFirstTrunkFrame));
  if (message.size() > kFirstTrunkFrame) add(message.substr(kFirstTrunkFrame));
  return frames;
}

base::Status TrunkReader::Feed(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    if (left_ == 0) {
      if (!Complete(header_, kTrunkHeaderBytes, bytes)) return {};
      connection_ = BigEndian(header_);
      left_ = BigEndian(std::string_view(header_).substr(4));
      header_.clear();
      if (left_ > kLongestTrunkFrame) {
        return base::Fail(base::Invalid(
            "NriTrunk", fmt::format("the container runtime sent a frame of {} bytes; NRI allows {}",
                                    left_, kLongestTrunkFrame)));
      }
    }
    const auto piece = bytes.substr(0, left_);
    bytes.remove_prefix(piece.size());
    left_ -= piece.size();
    if (!piece.empty()) take(connection_, piece);
  }
  return {};
}

std::string ToCall(CallType type, std::uint32_t stream, std::string_view data) {
  std::string message;
  message.reserve(kCallHeaderBytes + data.size());
  AppendBigEndian(message, static_cast<std::uint32_t>(data.size()));
  AppendBigEndian(message, stream);
  message.push_back(static_cast<char>(type));
  message.push_back('\0');  // flags: all calls of NRI are unary
  message += data;
  return message;
}

void CallReader::Feed(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    if (left_ == 0) {
      if (!Complete(header_, kCallHeaderBytes, bytes)) return;
      left_ = BigEndian(header_);
      message_ = {.stream = BigEndian(std::string_view(header_).substr(4)),
                  .type = static_cast<std::uint8_t>(header_[8]),
                  .too_long = left_ > kLongestCall};
      header_.clear();
    }
    const auto piece = bytes.substr(0, left_);
    bytes.remove_prefix(piece.size());
    left_ -= piece.size();
    if (!message_.too_long) message_.data += piece;
    if (left_ == 0) take(std::exchange(message_, {}));
  }
}

}  // namespace pitcrew::nri
