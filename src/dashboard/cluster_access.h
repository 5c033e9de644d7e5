// Who may see the fleet in a cluster: whoever the API server knows by a token and lets list nodes
// and pods of all namespaces (TokenReview, SubjectAccessReview of Kubernetes).
#pragma once

#include <chrono>
#include <memory>

#include "base/clock.h"
#include "dashboard/access.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::dashboard {

struct ClusterAccessSettings {
  // What the API server has said of a token counts for so long; then it is asked again.
  std::chrono::seconds trust{60};
  // More people are not signed in at a time; the one who was seen longest ago goes first.
  std::size_t most_sessions = 1000;
};

// Sessions are a cookie that a browser sends over TLS only; they end with the token or with the
// rights of its owner, and with this process. `client` asks with the rights of this program
// (create tokenreviews and subjectaccessreviews).
std::unique_ptr<Access> ClusterAccess(std::shared_ptr<kube::Client> client, io::StopToken stop,
                                      ClusterAccessSettings settings = {});

}  // namespace pitcrew::dashboard
