#include "kube/request.h"

#include <fmt/format.h>

namespace pitcrew::kube {
namespace {

using codec::Json;

class Query {
 public:
  Query& Add(std::string_view name, std::string_view value) {
    if (value.empty()) return *this;
    if (!text_.empty()) text_ += '&';
    text_ += fmt::format("{}={}", name, PercentEncode(value));
    return *this;
  }
  Query& AddFlag(std::string_view name, bool value) { return Add(name, value ? "true" : ""); }
  [[nodiscard]] std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string WriteQuery(const WriteOptions& options) {
  return Query()
      .Add("fieldManager", options.field_manager)
      .AddFlag("force", options.force)
      .Add("dryRun", options.dry_run ? "All" : "")
      .Take();
}

// Typed objects must name their type.
Json WithType(const ResourceKind& kind, Json object) {
  if (!object.contains("apiVersion")) object["apiVersion"] = kind.api_version();
  if (!object.contains("kind")) object["kind"] = kind.kind;
  return object;
}

base::Error MissingName(const ResourceKind& kind) {
  return base::Invalid("MissingName", fmt::format("a {} without metadata.name", kind.kind));
}

std::string_view PatchContentType(PatchType type) {
  switch (type) {
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kStrategicMerge:
      return "application/strategic-merge-patch+json";
    case PatchType::kApply:
      return "application/apply-patch+yaml";
  }
  return "";
}

std::string_view PropagationName(Propagation propagation) {
  switch (propagation) {
    case Propagation::kServerDefault:
      return "";
    case Propagation::kBackground:
      return "Background";
    case Propagation::kForeground:
      return "Foreground";
    case Propagation::kOrphan:
      return "Orphan";
  }
  return "";
}

base::Code CodeFromStatus(int status, std::string_view reason, bool names_object) {
  using base::Code;
  switch (status) {
    case 400:
    case 406:
    case 413:
    case 415:
    case 422:
      return Code::kInvalid;
    case 401:
    case 403:
      return Code::kDenied;
    case 404:
      return names_object ? Code::kNotFound : Code::kUnsupported;
    case 405:
    case 501:
      return Code::kUnsupported;
    case 408:
      return Code::kTimeout;
    case 409:
      return reason == "AlreadyExists" ? Code::kExists : Code::kConflict;
    case 410:
      return Code::kGone;
    case 429:
      return Code::kTooMany;
    default:
      return status >= 500 ? Code::kUnavailable : Code::kInternal;
  }
}

// The causes that the message does not name already.
std::string MissingCauses(const Json& status, const std::string& message) {
  const Json* causes = codec::Find(status, {"details", "causes"});
  std::string text;
  if (causes == nullptr || !causes->is_array()) return text;
  for (const Json& cause : *causes) {
    const std::string what = codec::FindString(cause, {"message"});
    const std::string field = codec::FindString(cause, {"field"});
    if (message.find(what) != std::string::npos) continue;
    text += fmt::format("; {}{}{}", field, field.empty() ? "" : ": ", what);
  }
  return text;
}

base::Error FromStatus(const Json& status, int http_status, std::string_view what) {
  std::string reason = codec::FindString(status, {"reason"});
  std::string message = codec::FindString(status, {"message"}, "no message");
  const bool names_object = !codec::FindString(status, {"details", "name"}).empty();
  if (const Json* causes = codec::Find(status, {"details", "causes"});
      causes != nullptr && causes->is_array()) {
    // The server hides this one behind reason Timeout; callers must tell it apart.
    for (const Json& cause : *causes) {
      if (codec::FindString(cause, {"reason"}) == "ResourceVersionTooLarge") {
        reason = "ResourceVersionTooLarge";
      }
    }
  }
  message += MissingCauses(status, message);
  const auto code = CodeFromStatus(http_status, reason, names_object);
  if (code == base::Code::kUnsupported && http_status == 404) reason = "ResourceNotServed";
  if (reason.empty()) reason = fmt::format("Http{}", http_status);
  return {.code = code, .reason = reason, .message = fmt::format("{}: {}", what, message)};
}

}  // namespace

std::string Request::target() const { return query.empty() ? path : path + "?" + query; }

std::string PercentEncode(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string result;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      result += c;
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

std::string ResourcePath(const ResourceKind& kind, std::string_view namespace_name,
                         std::string_view name, std::string_view subresource) {
  std::string path = kind.group.empty() ? fmt::format("/api/{}", kind.version)
                                        : fmt::format("/apis/{}/{}", kind.group, kind.version);
  if (kind.namespaced && !namespace_name.empty()) {
    path += "/namespaces/" + PercentEncode(namespace_name);
  }
  path += fmt::format("/{}", kind.plural);
  if (!name.empty()) path += "/" + PercentEncode(name);
  if (!subresource.empty()) path += fmt::format("/{}", subresource);
  return path;
}

Request GetRequest(const ResourceKind& kind, const ObjectKey& key) {
  return {.verb = "get",
          .method = "GET",
          .path = ResourcePath(kind, key.namespace_name, key.name),
          .query = {},
          .content_type = {},
          .body = {}};
}

Request ListRequest(const ResourceKind& kind, std::string_view namespace_name,
                    const ListOptions& options, std::string_view continue_token) {
  Query query;
  query.Add("labelSelector", options.label_selector).Add("fieldSelector", options.field_selector);
  if (options.page_size > 0) query.Add("limit", std::to_string(options.page_size));
  query.Add("continue", continue_token);
  return {.verb = "list",
          .method = "GET",
          .path = ResourcePath(kind, namespace_name),
          .query = query.Take(),
          .content_type = {},
          .body = {}};
}

Request WatchRequest(const ResourceKind& kind, std::string_view namespace_name,
                     const WatchOptions& options) {
  return {.verb = "watch",
          .method = "GET",
          .path = ResourcePath(kind, namespace_name),
          .query = Query()
                       .AddFlag("watch", true)
                       .Add("labelSelector", options.label_selector)
                       .Add("fieldSelector", options.field_selector)
                       .Add("resourceVersion", options.resource_version)
                       .AddFlag("allowWatchBookmarks", true)
                       .Add("timeoutSeconds", std::to_string(options.timeout_seconds))
                       .Take(),
          .content_type = {},
          .body = {}};
}

base::Result<Request> CreateRequest(const ResourceKind& kind, const codec::Json& object,
                                    const WriteOptions& options) {
  const ObjectKey key = KeyOf(object);
  if (key.name.empty() && codec::FindString(object, {"metadata", "generateName"}).empty()) {
    return base::Fail(MissingName(kind));
  }
  // A subresource ("eviction", "token") is created below its object.
  return Request{
      .verb = "create",
      .method = "POST",
      .path = ResourcePath(kind, key.namespace_name, options.subresource.empty() ? "" : key.name,
                           options.subresource),
      .query = WriteQuery(options),
      .content_type = "application/json",
      .body = codec::ToJsonText(options.subresource.empty() ? WithType(kind, object) : object)};
}

base::Result<Request> UpdateRequest(const ResourceKind& kind, const codec::Json& object,
                                    const WriteOptions& options) {
  const ObjectKey key = KeyOf(object);
  if (key.name.empty()) return base::Fail(MissingName(kind));
  return Request{.verb = "update",
                 .method = "PUT",
                 .path = ResourcePath(kind, key.namespace_name, key.name, options.subresource),
                 .query = WriteQuery(options),
                 .content_type = "application/json",
                 .body = codec::ToJsonText(WithType(kind, object))};
}

Request PatchRequest(const ResourceKind& kind, const ObjectKey& key, PatchType type,
                     const codec::Json& patch, const WriteOptions& options) {
  return {.verb = type == PatchType::kApply ? "apply" : "patch",
          .method = "PATCH",
          .path = ResourcePath(kind, key.namespace_name, key.name, options.subresource),
          .query = WriteQuery(options),
          .content_type = std::string(PatchContentType(type)),
          .body = codec::ToJsonText(patch)};
}

base::Result<Request> ApplyRequest(const ResourceKind& kind, const codec::Json& object,
                                   const WriteOptions& options) {
  const ObjectKey key = KeyOf(object);
  if (key.name.empty()) return base::Fail(MissingName(kind));
  if (options.field_manager.empty()) {
    return base::Fail(base::Invalid(
        "MissingFieldManager",
        fmt::format("apply {} {}: needs a field manager", kind.plural, key.ToString())));
  }
  return PatchRequest(kind, key, PatchType::kApply, WithType(kind, object), options);
}

Request DeleteRequest(const ResourceKind& kind, const ObjectKey& key,
                      const DeleteOptions& options) {
  Json body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) {
    body["preconditions"]["resourceVersion"] = options.resource_version;
  }
  if (const auto name = PropagationName(options.propagation); !name.empty()) {
    body["propagationPolicy"] = name;
  }
  if (options.grace_period_seconds) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  return {.verb = "delete",
          .method = "DELETE",
          .path = ResourcePath(kind, key.namespace_name, key.name),
          .query = {},
          .content_type = "application/json",
          .body = codec::ToJsonText(body)};
}

Request RawRequest(std::string_view path_and_query) {
  const auto question = path_and_query.find('?');
  return {.verb = "get",
          .method = "GET",
          .path = std::string(path_and_query.substr(0, question)),
          .query = question == std::string_view::npos
                       ? std::string()
                       : std::string(path_and_query.substr(question + 1)),
          .content_type = {},
          .body = {}};
}

base::Error ErrorFromStatus(int http_status, std::string_view body, std::string_view what) {
  if (const auto status = codec::ParseJson(body, "answer");
      status && codec::FindString(*status, {"kind"}) == "Status") {
    return FromStatus(*status, http_status, what);
  }
  // A proxy or the server's own error page: not a statement about any object.
  const Json plain{{"message", fmt::format("HTTP {} {}", http_status, body.substr(0, 200))}};
  return FromStatus(plain, http_status, what);
}

base::Error ErrorFromStatusObject(std::string_view status_json, std::string_view what) {
  const auto status = codec::ParseJson(status_json, "status");
  if (!status) return status.error().Within(what);
  const Json* code = codec::Find(*status, {"code"});
  return FromStatus(*status, code != nullptr && code->is_number_integer() ? code->get<int>() : 500,
                    what);
}

}  // namespace pitcrew::kube
