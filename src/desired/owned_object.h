// Objects that the operator made: how they are found again, and what is kept of them in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "desired/runtime.h"
#include "kube/resource.h"

namespace pitcrew::desired {

// Name under which the operator's fields are managed.
inline constexpr std::string_view kFieldManager = "nvidia-gpu-operator";

// State of the driver's operand, of which NVIDIADrivers have DaemonSets, too.
inline constexpr std::string_view kDriverState = "state-driver";

// Numbers of a DaemonSet's status that readiness depends on.
struct DaemonSetStatus {
  std::int64_t generation = 0;
  std::int64_t observed_generation = 0;
  std::int64_t desired = 0;
  std::int64_t updated = 0;
  std::int64_t available = 0;
  std::int64_t unavailable = 0;

  bool operator==(const DaemonSetStatus&) const = default;
};

// What is kept of an object in the cluster.
struct OwnedObject {
  std::string uid;
  std::string state;          // label nvidia.com/gpu-operator.state; "" when it is not one of ours
  std::string owner_uid;      // of its controller
  std::string hash;           // annotation nvidia.com/last-applied-hash
  std::uint64_t version = 0;  // resourceVersion
  std::uint64_t fingerprint = 0;  // of everything but status and bookkeeping
  bool deleting = false;
  DaemonSetStatus daemonset;
  std::vector<std::string> keys;           // of a ConfigMap's data
  std::string data_digest;                 // of keys and values of a ConfigMap's data
  std::string driver_content;              // annotation kDriverContent of a DaemonSet
  std::optional<Runtime> toolkit_runtime;  // of a DaemonSet of the container toolkit
  std::string manager_image;               // of a DaemonSet with a driver manager
  std::string driver_object;               // DriverObjectOf
};
OwnedObject ReadOwned(const codec::Json& object);

// Of a DaemonSet with the driver of a NVIDIADriver's nodes: that object's name, whether the
// DaemonSet still is one's of that name or, after a deletion with orphans, nobody's. "" for all
// else, and where another object has a share in it.
std::string DriverObjectOf(const codec::Json& object);

// The annotation nvidia.com/last-applied-hash of an object, wanted or live; "" without it.
std::string AppliedHash(const codec::Json& object);

// Of a Secret: other data gives another digest, and so does a Secret that is made anew. Who cannot
// read the Secret's UID cannot try guesses of its data by it.
std::string SecretDigest(const codec::Json& secret);

// Every pod of the DaemonSet runs the newest version and is available (operator-behaviour.md
// section 6.2). For OnDelete the controller's own count of updated pods stands in for upstream's
// comparison of pods with the newest ControllerRevision: both say the same.
bool IsReady(const DaemonSetStatus& status);

// Values of a member of that name ("limits") are quantities of resources.
bool HoldsQuantities(std::string_view member);

// Such a value says the same as none: the server drops it.
bool SaysNothing(const codec::Json& value);

// `live` has every field of `desired` with the same value. Fields that only `live` has are the
// server's defaults or other managers'; lists must agree in length. Quantities of resources are the
// same in every form.
bool Covers(const codec::Json& live, const codec::Json& desired);

// Kinds of operands' objects that not every cluster serves.
struct OptionalKinds {
  bool security_context_constraints = false;  // OpenShift
  bool service_monitors = false;
  bool prometheus_rules = false;

  bool operator==(const OptionalKinds&) const = default;
};

// The kind of an object that operands are made of; null for any other.
const kube::ResourceKind* KindOf(const codec::Json& object);
// All of them, those included that not every cluster serves.
std::span<const kube::ResourceKind> OwnedKinds();
bool IsServed(const kube::ResourceKind& kind, const OptionalKinds& served);

}  // namespace pitcrew::desired
