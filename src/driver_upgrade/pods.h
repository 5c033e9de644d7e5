// What the upgrade of a driver reads of DaemonSets, their revisions, their pods and the pods that
// prove a driver (driver-lifecycle.md sections 2.4, 2.6, 2.10, 6.4). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "kube/resource.h"

namespace pitcrew::driver_upgrade {

inline constexpr kube::ResourceKind kControllerRevisions{"apps", "v1", "controllerrevisions",
                                                         "ControllerRevision"};

// Containers of a driver's pod: the one in which the driver is, and OpenShift's toolkit.
inline constexpr std::string_view kDriverContainer = "nvidia-driver-ctr";
inline constexpr std::string_view kToolkitContainer = "openshift-driver-toolkit-ctr";

// Annotation of an orphaned driver pod: the parameters of its modules, which stand in a ConfigMap,
// are not those that its DaemonSet wanted last. Only that one knew it.
inline constexpr std::string_view kFormerParameters = "nvidia.com/gpu-driver-former-parameters";

// Label of pods and revisions.
inline constexpr std::string_view kRevisionHash = "controller-revision-hash";

struct DriverDaemonSet {
  std::string name = {};
  std::string uid;
  std::string digest = {};  // of the configuration of its template's driver; "" when it has none
  std::uint64_t configuration = 0;  // DriverConfigurationOf its template
  bool precompiled = false;

  bool operator==(const DriverDaemonSet&) const = default;
};

// Whether a pod of `after` would keep the driver of a pod of the same DaemonSet loaded. NVIDIA's
// images with precompiled modules do not note the digest on the node (driver-lifecycle.md section
// 12 #18): the driver manager of a new pod would try to unload the driver below pods that use it,
// and nothing of an image says that it does note it.
bool KeepsDriver(std::string_view digest_before, const DriverDaemonSet& after);

base::Result<DriverDaemonSet> ReadDriverDaemonSet(const codec::Json& object);

// A ControllerRevision: one version of a DaemonSet's template.
struct Revision {
  std::string owner_uid;
  std::string hash;  // what its pods have as the label controller-revision-hash
  std::int64_t number = 0;
  std::string digest = {};  // as in DriverDaemonSet

  bool operator==(const Revision&) const = default;
};
base::Result<Revision> ReadRevision(const codec::Json& object);

struct DriverPod {
  std::string name;
  std::string uid;
  std::string node;                 // "" until it is bound
  std::string waits_for;            // the node that a DaemonSet's pod is for, until it is bound
  std::string owner_uid;            // of its first owner; "" for an orphan
  std::string revision;             // label controller-revision-hash
  std::string digest;               // as in DriverDaemonSet
  std::uint64_t configuration = 0;  // likewise
  bool former_parameters = false;   // kFormerParameters
  bool deleting = false;
  bool ready = false;    // it runs, and so do all of its containers, ready
  bool failing = false;  // a container that is not ready has been restarted more than 10 times
  std::string missing_image = {};     // a container waits for it, and it cannot be pulled; "": none
  std::string missing_image_of = {};  // that container

  bool operator==(const DriverPod&) const = default;
};
base::Result<DriverPod> ReadDriverPod(const codec::Json& object);

struct ValidatorPod {
  std::string node;
  bool ready = false;  // likewise, and it is not being deleted

  bool operator==(const ValidatorPod&) const = default;
};
base::Result<ValidatorPod> ReadValidatorPod(const codec::Json& object);

// How a driver pod stands to its DaemonSet.
enum class Sync {
  kUnknown,   // the DaemonSet or its revisions have not been seen
  kInSync,    // made from the newest template
  kOutdated,  // made from a former one
  kOrphaned,  // it has no owner
};

// Who is to run the driver of a node whose pod has no owner any more.
enum class Succession {
  kNone,   // nobody, as far as is seen
  kOther,  // a DaemonSet with another driver
  kSame,   // a DaemonSet that would run what runs already (succession.h)
};

// The newest versions of all driver DaemonSets.
class Templates {
 public:
  void Add(const DriverDaemonSet& daemonset);
  // Of another owner than those added: ignored.
  void Add(const Revision& revision);

  [[nodiscard]] Sync SyncOf(const DriverPod& pod) const;
  // Hash of the newest revision; "" when it is not known, which it is not either while the newest
  // has another driver than the DaemonSet: the DaemonSet controller has not looked at it yet.
  [[nodiscard]] std::string NewestOf(const DriverPod& pod) const;
  // A new pod would find the driver that it is to run loaded already, and know it by its digest: it
  // takes no eviction to start it.
  [[nodiscard]] bool RestartsOnly(const DriverPod& pod) const;
  // `waiting`: the DaemonSet's pod that waits for the node of the orphan `pod`; null when there is
  // none.
  [[nodiscard]] Succession SuccessionOf(const DriverPod& pod, const DriverPod* waiting) const;
  // Name of the pod's DaemonSet; "" when it is not known.
  [[nodiscard]] std::string DaemonSetOf(const DriverPod& pod) const;
  [[nodiscard]] bool Has(std::string_view daemonset_uid) const;

 private:
  struct Newest {
    DriverDaemonSet daemonset;
    std::optional<Revision> revision;
  };
  std::map<std::string, Newest, std::less<>> by_uid_;
};

// Of several driver pods of one node the one that speaks for it: a DaemonSet's before an orphan,
// one that stays before one that goes, then by name. Null when there is none.
const DriverPod* ChoosePod(const std::vector<std::shared_ptr<const DriverPod>>& pods);

}  // namespace pitcrew::driver_upgrade
