#include "node/toolkit/node_pods.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/file.h"
#include "base/strings.h"
#include "kube/await.h"
#include "kube/config.h"
#include "kube/projection.h"
#include "node/toolkit/successor.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

// The kubelet would have tried again by then.
constexpr std::chrono::seconds kTimeout{5};
// Set by the kubelet when a pod's sandbox is there.
constexpr std::string_view kSandboxReady = "PodReadyToStartContainers";

std::string Hostname() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

bool HasSandbox(const Json& pod) {
  const auto* conditions = codec::Find(pod, {"status", "conditions"});
  return conditions != nullptr &&
         std::any_of(conditions->begin(), conditions->end(), [](auto& one) {
           return codec::FindString(one, {"type"}) == kSandboxReady &&
                  codec::FindString(one, {"status"}) == "True";
         });
}

}  // namespace

std::string PodUidOf(std::string_view mountinfo) {
  constexpr std::string_view kPods = "/pods/";
  for (const auto& line : base::Split(mountinfo, '\n')) {
    // proc_pid_mountinfo(5): fields 4 and 5 are the folder in its file system, and where it is.
    const auto fields = base::Split(line, ' ');
    if (fields.size() < 5 || (fields[4] != "/etc/hosts" && fields[4] != "/dev/termination-log")) {
      continue;
    }
    const auto at = fields[3].find(kPods);
    if (at == std::string::npos) continue;
    const auto uid = std::string_view(fields[3]).substr(at + kPods.size());
    return std::string(uid.substr(0, uid.find('/')));
  }
  return {};
}

base::Result<NodePods> NodePods::Find(std::shared_ptr<kube::Client> client,
                                      const std::string& namespace_name,
                                      const std::string& host_name, const std::string& pod_uid,
                                      const io::StopToken& stop, base::Deadline deadline) {
  const auto is_own = [&](const Json& pod) {
    return pod_uid.empty() || codec::FindString(pod, {"metadata", "uid"}) == pod_uid;
  };
  auto own = client->Get(kube::kPods, {.namespace_name = namespace_name, .name = host_name}, stop);
  if (!own && (pod_uid.empty() || own.error().code != base::Code::kNotFound)) {
    return base::Fail(own.error());
  }
  if (!own || !is_own(*own)) {
    TRY_ASSIGN(const auto pods,
               client->List(kube::kPods, namespace_name,
                            {.field_selector = "spec.nodeName=" + host_name}, stop));
    const auto found = std::ranges::find_if(pods.items, is_own);
    if (found == pods.items.end()) {
      return base::Fail(base::NotFound(
          "OwnPodNotFound", "no pod of namespace " + namespace_name + " is named " + host_name +
                                " or runs on a node of that name with the UID " + pod_uid));
    }
    own = *found;
  }
  return NodePods(std::move(client), namespace_name, codec::FindString(*own, {"metadata", "name"}),
                  codec::FindString(*own, {"spec", "nodeName"}), deadline);
}

base::Result<NodePods> NodePods::InCluster(const io::StopToken& stop, base::Deadline deadline) {
  TRY_ASSIGN(auto config, kube::LoadInCluster());
  const std::string namespace_name = config.default_namespace;
  TRY_ASSIGN(auto client,
             kube::Client::Create(std::move(config),
                                  {.user_agent = "nvidia-container-toolkit",
                                   .limits = {.timeout = kTimeout, .deadline = deadline}}));
  const auto mounts = base::ReadFile("/proc/self/mountinfo");
  return Find(std::move(client), namespace_name, Hostname(), PodUidOf(mounts.value_or("")), stop,
              deadline);
}

bool NodePods::IsIn(State state, const Json& pod) const {
  if (codec::FindString(pod, {"spec", "runtimeClassName"}).empty()) return false;
  if (codec::FindString(pod, {"metadata", "name"}) == own_pod_) return false;
  const bool leaving = codec::Find(pod, {"metadata", "deletionTimestamp"}) != nullptr;
  if (state == State::kLeaving) return leaving;
  return !leaving && codec::FindString(pod, {"status", "phase"}) == "Pending" && !HasSandbox(pod);
}

base::Status NodePods::AwaitNone(State state, const io::StopToken& stop,
                                 base::SteadyClock::time_point deadline) const {
  kube::InformerOptions selection;
  selection.namespace_name = namespace_;
  selection.field_selector = "spec.nodeName=" + node_;
  return kube::Await<bool>(
      client_, kube::kPods, kube::ProjectJson<bool>([&](const Json& pod) -> base::Result<bool> {
        return IsIn(state, pod);
      }),
      selection,
      [](const kube::Store<bool>& store) -> base::Result<bool> {
        const auto pods = store.Snapshot();
        return std::none_of(pods.begin(), pods.end(), [](auto& pod) { return *pod.second; });
      },
      stop, std::min(base::Deadline(deadline), deadline_).at());
}

base::Status NodePods::AwaitLeaving(const io::StopToken& stop,
                                    base::SteadyClock::time_point deadline) const {
  return AwaitNone(State::kLeaving, stop, deadline);
}

base::Result<std::size_t> NodePods::RetryWaiting(
    const std::vector<std::chrono::milliseconds>& pauses, const io::StopToken& stop) const {
  return Retry(State::kWaiting, pauses, stop);
}

base::Result<std::size_t> NodePods::RetryLeaving(
    const std::vector<std::chrono::milliseconds>& pauses, const io::StopToken& stop) const {
  return Retry(State::kLeaving, pauses, stop);
}

base::Result<bool> NodePods::HasSuccessor(const io::StopToken& stop) const {
  Surroundings around;
  TRY_ASSIGN(around.own_pod,
             client_->Get(kube::kPods, {.namespace_name = namespace_, .name = own_pod_}, stop));
  std::string name;
  if (const auto* owners = codec::Find(around.own_pod, {"metadata", "ownerReferences"})) {
    for (const Json& owner : *owners) {
      if (codec::FindString(owner, {"kind"}) == "DaemonSet") name = owner.value("name", "");
    }
  }
  if (name.empty()) return false;
  // The toolkit may list DaemonSets, not get one.
  TRY_ASSIGN(auto daemon_sets, client_->List(kube::kDaemonSets, namespace_,
                                             {.field_selector = "metadata.name=" + name}, stop));
  if (daemon_sets.items.empty()) return false;
  around.daemon_set = std::move(daemon_sets.items.front());
  auto node = client_->Get(kube::kNodes, {.name = node_}, stop);
  auto name_space = client_->Get(kube::kNamespaces, {.name = namespace_}, stop);
  for (const auto* object : {&node, &name_space}) {
    // Of a node or a namespace that the API server does not know there will be no other pod.
    if (!*object && object->error().code == base::Code::kNotFound) return false;
    if (!*object) return base::Fail(object->error());
  }
  around.node = *std::move(node);
  around.name_space = *std::move(name_space);
  return toolkit::HasSuccessor(around);
}

base::Result<std::size_t> NodePods::Retry(State state,
                                          const std::vector<std::chrono::milliseconds>& pauses,
                                          const io::StopToken& stop) const {
  std::set<std::string> changed;
  for (const auto pause : pauses) {
    TRY_ASSIGN(const auto pods, client_->List(kube::kPods, namespace_,
                                              {.field_selector = "spec.nodeName=" + node_}, stop));
    bool any = false;
    for (const Json& pod : pods.items) {
      if (!IsIn(state, pod)) continue;
      any = true;
      TRY(Change(kube::KeyOf(pod), stop));
      changed.insert(kube::KeyOf(pod).name);
    }
    if (!any) break;
    const auto none = AwaitNone(state, stop, base::SteadyClock::now() + pause);
    if (none) break;
    if (none.error().code != base::Code::kTimeout) return base::Fail(none.error());
  }
  return changed.size();
}

base::Status NodePods::Change(const kube::ObjectKey& pod, const io::StopToken& stop) const {
  // Finer than a second: a second try must be another value.
  const std::string now = base::FormatRfc3339(base::WallClock::now(), 6);
  const auto patched =
      client_->Patch(kube::kPods, pod, kube::PatchType::kMerge,
                     {{"metadata", {{"annotations", {{kRuntimeConfigured, now}}}}}}, {}, stop);
  // It may have gone meanwhile.
  if (patched || patched.error().code == base::Code::kNotFound) return {};
  return base::Fail(patched.error());
}

}  // namespace pitcrew::node::toolkit
