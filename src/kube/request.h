// Requests to the API server as plain values, built without I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "kube/resource.h"

namespace pitcrew::kube {

enum class PatchType { kJson, kMerge, kStrategicMerge, kApply };
enum class Propagation { kServerDefault, kBackground, kForeground, kOrphan };

struct ListOptions {
  std::string label_selector{};
  std::string field_selector{};
  int page_size = 500;  // objects asked for at once; 0: everything in one answer
};

struct WriteOptions {
  std::string field_manager{};
  std::string subresource{};  // "status", "scale"; empty: the object itself
  bool force = false;         // apply only: take fields over from other managers
  bool dry_run = false;
};

struct DeleteOptions {
  // Preconditions; empty: none. A mismatch is kConflict.
  std::string uid{};
  std::string resource_version{};
  Propagation propagation = Propagation::kBackground;
  std::optional<std::int64_t> grace_period_seconds{};
};

struct WatchOptions {
  std::string label_selector{};
  std::string field_selector{};
  std::string resource_version{};
  int timeout_seconds = 290;  // the server ends the watch after that time
};

// One HTTP request, relative to the server's URL.
struct Request {
  std::string
      verb;  // Kubernetes' word for it: get, list, watch, create, update, patch, apply, delete
  std::string method{};  // HTTP's
  std::string path{};    // percent-encoded, begins with "/"
  std::string query{};   // percent-encoded, without "?"
  std::string content_type{};
  std::string body{};
  // Of an object in the answer, only type and metadata are wanted: of a Node a third.
  bool metadata_only = false;
  // A POST that creates nothing which could be there twice, like the eviction of one uid.
  bool repeatable = false;

  // Sending it twice has the effect of sending it once. A JSON patch may append to a list.
  [[nodiscard]] bool idempotent() const {
    return repeatable || (method != "POST" && content_type != "application/json-patch+json");
  }
  // Path, and "?" and the query when there is one.
  [[nodiscard]] std::string target() const;
};

// The path of a collection (empty `name`) or an object. `namespace_name` is ignored for
// cluster-scoped kinds; empty for a namespaced kind means all namespaces.
std::string ResourcePath(const ResourceKind& kind, std::string_view namespace_name,
                         std::string_view name = "", std::string_view subresource = "");

Request GetRequest(const ResourceKind& kind, const ObjectKey& key);
Request ListRequest(const ResourceKind& kind, std::string_view namespace_name,
                    const ListOptions& options, std::string_view continue_token = "");
Request WatchRequest(const ResourceKind& kind, std::string_view namespace_name,
                     const WatchOptions& options);
// Namespace and name of the next two come from the object's metadata.
base::Result<Request> CreateRequest(const ResourceKind& kind, const codec::Json& object,
                                    const WriteOptions& options);
base::Result<Request> UpdateRequest(const ResourceKind& kind, const codec::Json& object,
                                    const WriteOptions& options);
Request PatchRequest(const ResourceKind& kind, const ObjectKey& key, PatchType type,
                     const codec::Json& patch, const WriteOptions& options);
// kInvalid without a field manager or a name.
base::Result<Request> ApplyRequest(const ResourceKind& kind, const codec::Json& object,
                                   const WriteOptions& options);
Request DeleteRequest(const ResourceKind& kind, const ObjectKey& key, const DeleteOptions& options);
Request RawRequest(std::string_view path_and_query);

// RFC 3986: everything but unreserved characters becomes %XX.
std::string PercentEncode(std::string_view text);

// The Error for an HTTP status that is not 2xx: code from the status, reason and message from the
// metav1.Status in `body`, with its causes; `what` names the request ("get nodes x").
base::Error ErrorFromStatus(int http_status, std::string_view body, std::string_view what);
// The same for a Status object that came inside an answer (an ERROR event of a watch).
base::Error ErrorFromStatusObject(std::string_view status_json, std::string_view what);

}  // namespace pitcrew::kube
