#include "node/config_manager/manager.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "io/file_watcher.h"
#include "node/config_manager/choice.h"
#include "node/config_manager/process.h"
#include "node/own_node/label_watch.h"

namespace pitcrew::node::config_manager {
namespace {

using base::Result;
using base::Status;

// What the destination points to for the empty configuration.
constexpr const char* kNothing = "/dev/null";

}  // namespace

Manager::Manager(Options options, std::shared_ptr<kube::Client> client)
    : options_(std::move(options)),
      node_(std::move(client),
            {.node_name = options_.node_name, .component = "config-manager", .pod_name = {}}) {}

Status Manager::Run(const io::StopToken& stop) {
  // Watched before it is read: no edit in between is missed.
  TRY_ASSIGN(auto files, io::FileWatcher::Create());
  TRY(files.Watch(options_.source));
  TRY_ASSIGN(const auto watch, own_node::LabelWatch::Start(node_.client(), options_.node_name,
                                                           {options_.node_label}));
  TRY(watch->WaitUntilKnown(stop));
  while (true) {
    watch->Take();
    const auto value = watch->Value(options_.node_label);
    // An API server that cannot be asked now has not taken the label away.
    if (!value.is_unknown()) {
      TRY(Follow(value.is_present() ? *value.value() : std::string()));
      if (options_.oneshot) return {};
    }
    TRY(io::WaitReadable({watch->fd(), files.fd()}, stop));
    TRY(files.Take());
  }
}

Status Manager::Follow(const std::string& label) {
  const auto changed = Apply(label);
  if (!changed) {
    // The link that an init container made is a configuration to go on with.
    const bool goes_on = linked_ || (!options_.oneshot && base::ReadFile(options_.destination));
    if (!goes_on) return base::Fail(changed.error());
    if (std::exchange(told_, changed.error().ToString()) == changed.error().ToString()) return {};
    base::LogError("the configuration stays as it is", changed.error());
    node_.Record(kube::EventType::kWarning, "ConfigurationRefused",
                 fmt::format("{} goes on with its last good configuration: {}", options_.process,
                             changed.error().ToString()));
    return {};
  }
  told_.clear();
  if (!*changed || !options_.send_signal) return {};
  const auto signalled = Signal();
  if (signalled || options_.oneshot) return signalled;
  // A process that starts later reads the new configuration by itself.
  base::LogWarning("nobody is told about the configuration", signalled.error());
  return {};
}

Result<bool> Manager::Apply(const std::string& label) {
  TRY_ASSIGN(const auto available, ListConfigurations(options_.source));
  TRY_ASSIGN(const auto chosen,
             Choose(available, {.label = label,
                                .default_config = options_.default_config,
                                .fallback_strategies = options_.fallback_strategies}));
  const auto target = chosen.empty() ? std::filesystem::path(kNothing) : options_.source / chosen;
  TRY_ASSIGN(auto text, base::ReadFile(target));
  TRY_ASSIGN(const bool moved, PointLink(options_.destination, target));
  const bool edited = linked_ && text != text_;
  if (moved || edited) {
    base::LogInfo(moved ? "linked a configuration" : "the configuration was edited",
                  {{"configuration", chosen.empty() ? "none" : chosen},
                   {"label", label},
                   {"link", options_.destination.string()}});
  }
  linked_ = true;
  text_ = std::move(text);
  return moved || edited;
}

Status Manager::Signal() const {
  TRY_ASSIGN(const pid_t pid, FindProcess(options_.process));
  if (::kill(pid, options_.signal) != 0) {
    return base::Fail(base::FromErrno(errno, fmt::format("signal process {}", pid)));
  }
  base::LogInfo("told the process", {{"pid", pid}, {"signal", options_.signal}});
  return {};
}

}  // namespace pitcrew::node::config_manager
