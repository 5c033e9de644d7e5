#include "node/toolkit/waiting_pods.h"

#include <limits.h>
#include <unistd.h>

#include <array>

#include "base/clock.h"
#include "base/log.h"
#include "kube/config.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

// The kubelet would have tried again by then.
constexpr std::chrono::seconds kTimeout{5};

std::string Hostname() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

base::Result<std::size_t> RetryInCluster(const io::StopToken& stop) {
  TRY_ASSIGN(auto config, kube::LoadInCluster());
  const std::string namespace_name = config.default_namespace;
  TRY_ASSIGN(const auto client,
             kube::Client::Create(std::move(config), {.user_agent = "nvidia-container-toolkit",
                                                      .limits = {.timeout = kTimeout}}));
  return RetryWaitingPods(*client, namespace_name, Hostname(), stop);
}

}  // namespace

base::Result<std::size_t> RetryWaitingPods(kube::Client& client, const std::string& namespace_name,
                                           const std::string& own_pod, const io::StopToken& stop) {
  TRY_ASSIGN(const Json own,
             client.Get(kube::kPods, {.namespace_name = namespace_name, .name = own_pod}, stop));
  const std::string node = codec::FindString(own, {"spec", "nodeName"});
  TRY_ASSIGN(const auto pods,
             client.List(kube::kPods, namespace_name,
                         {.field_selector = "status.phase=Pending,spec.nodeName=" + node}, stop));
  const std::string now = base::FormatRfc3339(base::WallClock::now());
  std::size_t count = 0;
  for (const Json& pod : pods.items) {
    if (codec::FindString(pod, {"spec", "runtimeClassName"}).empty()) continue;
    const auto patched =
        client.Patch(kube::kPods, kube::KeyOf(pod), kube::PatchType::kMerge,
                     {{"metadata", {{"annotations", {{kRuntimeConfigured, now}}}}}}, {}, stop);
    if (patched) ++count;
    // It may have gone meanwhile.
    if (!patched && patched.error().code != base::Code::kNotFound)
      return base::Fail(patched.error());
  }
  return count;
}

void RetryWaitingPods(const io::StopToken& stop) {
  const auto count = RetryInCluster(stop);
  if (!count) {
    base::LogInfo("Pods that wait for the runtime are left to the kubelet's next try",
                  {{"why", count.error().message}});
  } else if (*count > 0) {
    base::LogInfo("Told the kubelet to try waiting pods again", {{"pods", std::to_string(*count)}});
  }
}

}  // namespace pitcrew::node::toolkit
