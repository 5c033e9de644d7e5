// Live calls to the API server: every call costs a request. Cached reads are Store<View> (store.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "codec/json.h"
#include "io/http_client.h"
#include "io/stop.h"
#include "kube/concurrency.h"
#include "kube/config.h"
#include "kube/request.h"
#include "kube/resource.h"
#include "kube/retry.h"

namespace pitcrew::kube {

struct CallLimits {
  std::chrono::milliseconds timeout = std::chrono::seconds(30);  // of each try
  // Of all tries and the waits between them: kTimeout, or the last try's error.
  base::Deadline deadline{};
  // io::HttpRequest::suspect_after: for calls that must not wait until a connection that is
  // silently dead is found out in general.
  std::chrono::milliseconds suspect_after{0};
  RetryPolicy retry{};
  // Where each try waits for its turn, and what it tells how the try has ended. Null: no such
  // thing.
  CallPace* pace = nullptr;
};

struct ClientOptions {
  std::string user_agent = "pitcrew";
  CallLimits limits{};
  // A watch without a byte for so long has ended (kTimeout "IdleTimeout"): an API server sends a
  // bookmark about every minute. Over HTTP/2 a connection that is silently dead is found out
  // sooner; HTTP/1.1 has nothing to ask with, and a proxy may keep its half of one open for ever.
  std::chrono::milliseconds watch_silence = std::chrono::minutes(3);
};

struct ObjectList {
  std::vector<codec::Json> items{};
  std::string resource_version{};
};

struct ServerVersion {
  int major = 0;
  int minor = 0;
  std::string git_version{};  // "v1.35.4"
};

// Thread-safe; calls block until the answer, the deadline (kTimeout) or the stop (kCancelled).
// All calls share one HTTP/2 connection. Errors: Code from the HTTP status (409 kConflict or
// kExists, 410 kGone, 401 and 403 kDenied, 422 and 400 kInvalid, 429 kTooMany, 5xx kUnavailable),
// reason from the server's Status. 404 is kNotFound only when the server names the object that is
// missing, which is evidence of its absence; a kind or path that is not served (a CRD that is not
// installed, or not yet) is kUnsupported "ResourceNotServed".
class Client {
 public:
  static base::Result<std::shared_ptr<Client>> Create(Config config, ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  base::Result<codec::Json> Get(const ResourceKind& kind, const ObjectKey& key,
                                const io::StopToken& stop = {});
  // Reads page by page; an expired continuation begins again. `namespace_name` empty: all.
  base::Result<ObjectList> List(const ResourceKind& kind, std::string_view namespace_name,
                                const ListOptions& options = {}, const io::StopToken& stop = {});
  base::Result<codec::Json> Create(const ResourceKind& kind, const codec::Json& object,
                                   const WriteOptions& options = {},
                                   const io::StopToken& stop = {});
  // Replaces the object; with a metadata.resourceVersion a concurrent change is kConflict.
  base::Result<codec::Json> Update(const ResourceKind& kind, const codec::Json& object,
                                   const WriteOptions& options = {},
                                   const io::StopToken& stop = {});
  base::Result<codec::Json> Patch(const ResourceKind& kind, const ObjectKey& key, PatchType type,
                                  const codec::Json& patch, const WriteOptions& options = {},
                                  const io::StopToken& stop = {});
  // Patch whose answer is only the object's new resourceVersion: for objects that are large, many
  // and watched anyway. `pace`: see CallLimits.
  base::Result<std::string> PatchVersion(const ResourceKind& kind, const ObjectKey& key,
                                         PatchType type, const codec::Json& patch,
                                         const WriteOptions& options = {},
                                         const io::StopToken& stop = {}, CallPace* pace = nullptr);
  // Server-side apply; options.field_manager is required. apiVersion and kind are filled in from
  // `kind` when the object lacks them.
  base::Result<codec::Json> Apply(const ResourceKind& kind, const codec::Json& object,
                                  const WriteOptions& options, const io::StopToken& stop = {});
  // Success also while finalizers still hold the object; kNotFound when there is none.
  base::Status Delete(const ResourceKind& kind, const ObjectKey& key,
                      const DeleteOptions& options = {}, const io::StopToken& stop = {});

  // The body of a GET, for example of "/readyz" or "/openapi/v3".
  base::Result<std::string> GetRaw(std::string_view path_and_query, const io::StopToken& stop = {});
  base::Result<ServerVersion> Version(const io::StopToken& stop = {});
  // Whether the server serves this group, version and resource now.
  base::Result<bool> Serves(const ResourceKind& kind, const io::StopToken& stop = {});

  // One request with the client's limits or other ones; the body of a 2xx answer.
  base::Result<std::string> Send(const Request& request, const io::StopToken& stop);
  base::Result<std::string> Send(const Request& request, const CallLimits& limits,
                                 const io::StopToken& stop);
  // Opens a watch. Tried again only where the server says after how long (Retry-After); any other
  // answer than 2xx is an Error at once.
  base::Result<std::unique_ptr<io::HttpStream>> OpenStream(const Request& request,
                                                           std::chrono::milliseconds timeout,
                                                           const io::StopToken& stop);

  [[nodiscard]] const Config& config() const;

  // Answers so far by Kubernetes verb and HTTP status (0: no answer), retries counted one by one.
  using RequestCounts = std::map<std::pair<std::string, int>, std::uint64_t>;
  [[nodiscard]] RequestCounts request_counts() const;

 private:
  struct Implementation;
  explicit Client(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace pitcrew::kube
