#include "node/cc_manager/daemon.h"

#include <algorithm>
#include <utility>

#include "api/cc_mode.h"
#include "base/log.h"
#include "node/cc_manager/change.h"
#include "node/cc_mode/node.h"

namespace pitcrew::node::cc_manager {
namespace {

constexpr const char* kComponent = "cc-manager";

// GPUs that come and go, or change their driver.
bool TellsOfGpus(const host::Uevent& event) {
  return event.subsystem() == "pci" || event.subsystem() == "module";
}

}  // namespace

Daemon::Daemon(const Options& options, std::shared_ptr<kube::Client> client, io::StopToken stop)
    : options_(options),
      client_(client),
      stop_(std::move(stop)),
      node_(client, {.node_name = options.node_name, .component = kComponent, .pod_name = ""}),
      progress_(std::move(client), options.node_name, kComponent,
                std::string(api::kCcModeProgress)) {}

std::string Daemon::DefaultMode() const {
  if (options_.default_mode == "off") return "off";
  if (cc_mode::IsHostCapable(host::Root(options_.root))) return options_.default_mode;
  base::LogWarning(
      "This host has neither Intel TDX nor AMD SEV-SNP: without the label "
      "nvidia.com/cc.mode its GPUs are not in a mode of confidential computing",
      {{"default", options_.default_mode}});
  return "off";
}

base::Status Daemon::Run() {
  // What an earlier process has told may not hold any more.
  TRY(ForgetReady(options_));
  if (auto kernel = host::UeventReceiver::Create()) {
    kernel_ = *std::move(kernel);
  } else {
    base::LogInfo("What happens to GPUs is seen at the next change of the label only",
                  {{"why", kernel.error().ToString()}});
  }
  TRY_ASSIGN(labels_,
             own_node::LabelWatch::Start(client_, options_.node_name, {std::string(api::kCcMode)}));
  if (const auto known = labels_->WaitUntilKnown(stop_); !known) {
    return stop_.stopped() ? base::Status() : known;
  }
  own_node::FollowSettings follow;
  follow.label = api::kCcMode;
  fallback_ = DefaultMode();
  follow.fallback = fallback_;
  follow.first_retry = options_.first_retry;
  follow.longest_retry = options_.longest_retry;
  follow.apply = [this](const std::string& wanted) { return Make(wanted); };
  follow.fds = {kernel_ ? kernel_->fd() : -1, -1};
  follow.take = [this]() -> base::Result<bool> {
    TRY_ASSIGN(const auto batch, kernel_->Take());
    return batch.lost || std::ranges::any_of(batch.events, TellsOfGpus);
  };
  const auto done = own_node::FollowLabel(*labels_, follow, stop_);
  // Nobody looks after the mode from now on.
  const auto forgotten = ForgetReady(options_);
  node_.FlushEvents();
  return done ? forgotten : done;
}

own_node::Followed Daemon::Make(const std::string& wanted) {
  return ApplyMode({options_, node_, *labels_, progress_, fallback_, stop_}, wanted);
}

}  // namespace pitcrew::node::cc_manager
