// The objects of a cluster at one moment, from a file or from a live cluster: what commands look at
// that explain a cluster and change nothing.
#pragma once

#include <compare>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/observed.h"
#include "base/result.h"
#include "codec/json.h"
#include "kube/resource.h"

namespace pitcrew::snapshot {

// A kind without its version: an object is the same one in every version of its group.
struct KindName {
  std::string group;  // empty for the core group
  std::string kind;

  // "DaemonSet", or "Proxy.config.openshift.io" for a group that Kubernetes itself does not have.
  [[nodiscard]] std::string ToString() const;
  auto operator<=>(const KindName&) const = default;
};
KindName KindNameOf(const kube::ResourceKind& kind);
KindName KindNameOf(const codec::Json& object);
// kInvalid when a value is no object of Kubernetes: it lacks apiVersion, kind or name.
base::Status CheckIdentity(const codec::Json& object);
// kExists: there is one of that identity already.
base::Error StandsTwice(const codec::Json& object);

// What is known about the objects of one kind.
enum class Coverage {
  kNotMentioned,  // a file has none of it, which means that there is none; a cluster was not asked
  kRead,          // of a cluster: at least what was asked for
  kNotServed,     // the cluster does not serve this kind: there is none
  kUnknown,       // the cluster did not tell (error() says why): that is not absence
};

using Objects = std::map<kube::ObjectKey, codec::Json>;

class Snapshot {
 public:
  // `origin` names the source for messages: "cluster.yaml", "kubeconfig x, context y".
  // `complete`: what is not in it does not exist (a file); otherwise kinds that were not asked for
  // are unknown.
  Snapshot(std::string origin, bool complete) : origin_(std::move(origin)), complete_(complete) {}

  [[nodiscard]] const std::string& origin() const { return origin_; }
  // gitVersion of the API server, "v1.35.4"; "" when the source is a file.
  [[nodiscard]] const std::string& server_version() const { return server_version_; }

  [[nodiscard]] Coverage coverage(const kube::ResourceKind& kind) const;
  // Why the kind is kUnknown; null otherwise. Borrowed.
  [[nodiscard]] const base::Error* error(const kube::ResourceKind& kind) const;
  // All objects that were read of a kind, by namespace and name. Empty is evidence of absence only
  // when coverage() says kRead, kNotServed, or kNotMentioned of a complete snapshot. Borrowed.
  [[nodiscard]] const Objects& All(const kube::ResourceKind& kind) const;
  // One object: unknown when its kind, or this object of it, could not be read. The value is never
  // null and borrowed from this snapshot.
  [[nodiscard]] base::Observed<const codec::Json*> Find(const kube::ResourceKind& kind,
                                                        const kube::ObjectKey& key) const;
  // The object, or null when it is absent or unknown. Borrowed.
  [[nodiscard]] const codec::Json* FindPresent(const kube::ResourceKind& kind,
                                               const kube::ObjectKey& key) const;
  // Every kind of which there is an object or an error.
  [[nodiscard]] const std::map<KindName, Objects>& kinds() const { return objects_; }

  // --- filling ---
  void SetServerVersion(std::string version) { server_version_ = std::move(version); }
  // kInvalid when the object lacks apiVersion, kind or name; kExists when there is one of the same
  // identity already.
  base::Status Add(codec::Json object);
  // Replaces the object of the same identity.
  base::Status Put(codec::Json object);
  void SetCoverage(const kube::ResourceKind& kind, Coverage coverage);
  void SetUnknown(const kube::ResourceKind& kind, base::Error error);
  // Only this object could not be read.
  void SetUnknown(const kube::ResourceKind& kind, const kube::ObjectKey& key, base::Error error);
  // This object was looked for and is not there.
  void SetMissing(const kube::ResourceKind& kind, const kube::ObjectKey& key);

 private:
  struct Reading {
    Coverage coverage = Coverage::kNotMentioned;
    base::Error error;
    // Of objects that were asked for by name.
    std::map<kube::ObjectKey, base::Error> unknown;
    std::set<kube::ObjectKey> missing;
  };
  [[nodiscard]] const Reading* ReadingOf(const kube::ResourceKind& kind) const;

  std::string origin_;
  bool complete_;
  std::string server_version_;
  std::map<KindName, Objects> objects_;
  std::map<KindName, Reading> readings_;
};

}  // namespace pitcrew::snapshot
