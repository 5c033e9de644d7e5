// A server before the shared API server that answers some requests itself, for what a real one does
// not do on demand in the midst of its work: no answer, an error for a moment.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "io/http_client.h"
#include "kube/client.h"
#include "loopback/scripted_server.h"

namespace pitcrew::testing {

class InterposedServer {
 public:
  // Called for every request, on a thread of its connection; what it does not take over (false)
  // goes to the API server, as the administrator's. One that takes a request over without a reply
  // waits for the token, so that its client hears nothing.
  using TakeOver =
      std::function<bool(const ScriptedRequest&, ScriptedReply&, const io::StopToken&)>;

  // Ends the process with a clear message when it cannot be started.
  explicit InterposedServer(TakeOver take_over);
  InterposedServer(const InterposedServer&) = delete;
  InterposedServer& operator=(const InterposedServer&) = delete;

  // One whose requests all come by here.
  [[nodiscard]] std::shared_ptr<kube::Client> MakeClient() const;

 private:
  void Forward(const ScriptedRequest& request, ScriptedReply& reply,
               const io::StopToken& stop) const;

  const TakeOver take_over_;
  std::unique_ptr<io::HttpClient> http_;
  std::unique_ptr<ScriptedServer> server_;  // ends before what its threads use
};

}  // namespace pitcrew::testing
