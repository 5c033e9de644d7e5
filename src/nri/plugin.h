// An NRI plugin that names CDI devices for containers which are about to be created
// (runtimes-and-distributions.md 9).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::nri {

struct Runtime {
  std::string name;     // "containerd"
  std::string version;  // as it calls itself: "v2.2.0", "1.34.1"
};

struct Container {
  std::string pod_name{};
  std::string pod_namespace{};
  std::map<std::string, std::string> pod_annotations{};
  std::string name{};
  std::vector<std::string> device_paths{};  // as far as it has them
};

// Called on the thread that serves. While it works no container of the node is created: no input or
// output in here.
class Handler {
 public:
  virtual ~Handler() = default;
  // The runtime has taken the plugin in. An error ends the connection; the runtime logs it.
  virtual base::Status Configure(const Runtime& runtime) = 0;
  // A container that was there before the plugin was, also one of an earlier connection.
  virtual void TakeExisting(const Container& container) = 0;
  // Names of CDI devices for this container. An error fails its creation, with its message.
  virtual base::Result<std::vector<std::string>> DevicesFor(const Container& container) = 0;
};

struct Identity {
  std::string name;    // letters, digits, _ . + -
  unsigned index = 0;  // the order among plugins, below 100
};

// The plugin's side of the conversation, as bytes.
class Conversation {
 public:
  // `handler` is used until this object ends.
  Conversation(const Identity& identity, Handler& handler);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // What the plugin says first. The runtime may ask before it has answered.
  [[nodiscard]] std::string Greeting() const;
  // What to send after these bytes. kInvalid "NriTrunk": they make no sense; kDenied
  // "NriRegistrationRefused": the runtime does not want the plugin. Nothing more can be received
  // then.
  base::Result<std::string> Receive(std::string_view bytes);
  // What the handler said to Configure: to be told after what Receive gave has been sent.
  [[nodiscard]] const base::Status& configured() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

// Connects to the runtime's socket and serves until the connection ends; so it always returns an
// error: kUnavailable "NriSocketMissing" (nobody listens there), "NriConnectionLost"; kCancelled;
// the conversation's and the handler's own.
base::Error Serve(const std::filesystem::path& socket, const Identity& identity, Handler& handler,
                  const io::StopToken& stop);

}  // namespace pitcrew::nri
