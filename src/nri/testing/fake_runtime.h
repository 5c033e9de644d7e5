// A container runtime's side of NRI on a real socket. Every call waits for the plugin, until the
// test's own limit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "nri/framing.h"
#include "nri/plugin.h"

namespace pitcrew::nri::testing {

class FakeRuntime {
 public:
  // Makes the socket anew, as a runtime does at its start.
  explicit FakeRuntime(const std::filesystem::path& socket);

  struct Answer {
    int code = 0;  // google.rpc.Code
    std::string message{};
    std::string payload{};
  };

  // Waits for a plugin to connect; its registration as "INDEX-NAME".
  std::string Accept();
  Answer Configure(const Runtime& runtime);
  // All at once.
  Answer Synchronize(const std::vector<Container>& containers);
  // Names of the CDI devices in the answer.
  std::vector<std::string> Create(const Container& container);
  // Any method, with any payload.
  Answer Call(const std::string& method, const std::string& payload);
  // Waits until the plugin has closed the connection.
  void AwaitEnd();
  // Ends the connection.
  void Close() { connection_ = {}; }

 private:
  CallMessage Next(std::uint32_t connection);

  base::FileDescriptor listener_;
  base::FileDescriptor connection_;
  TrunkReader trunk_;
  CallReader calls_;
  std::vector<std::pair<std::uint32_t, CallMessage>> received_;
  std::uint32_t stream_ = 0;
};

}  // namespace pitcrew::nri::testing
