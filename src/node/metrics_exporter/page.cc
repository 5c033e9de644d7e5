#include "node/metrics_exporter/page.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <set>

#include "base/file.h"
#include "base/log.h"
#include "node/metrics_exporter/job_mapping.h"
#include "prom/process.h"

namespace pitcrew::node::metrics_exporter {
namespace {

// A kubelet answers within milliseconds; a scrape has ten seconds in all.
constexpr std::chrono::milliseconds kKubeletLimit{1000};
constexpr std::chrono::minutes kLongestKept{2};

std::string MachineName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

}  // namespace

PodListing::PodListing(std::filesystem::path socket) : kubelet_(std::move(socket)) {}

PodListing::Answer PodListing::Now(std::chrono::milliseconds limit) {
  auto pods = kubelet_.List({}, base::Deadline::After(limit));
  const auto now = base::SteadyClock::now();
  const std::lock_guard lock(mutex_);
  if (pods) {
    if (!told_.empty()) base::LogInfo("the kubelet tells again which pods have which devices");
    told_.clear();
    last_ = std::make_shared<const std::vector<rpc::PodDevices>>(*std::move(pods));
    listed_ = now;
  } else {
    if (told_ != pods.error().message) base::LogWarning("pods are not up to date", pods.error());
    told_ = pods.error().message;
    if (now - listed_ > kLongestKept) last_.reset();
  }
  if (last_ == nullptr) return {};
  return {last_, now - listed_};
}

Page::Page(const Options& options) : options_(options) {
  text_options_.old_namespace = options.old_namespace;
  text_options_.hostname_label = options.hostname_label;
  if (!options.no_hostname) {
    text_options_.hostname = options.node_name.empty() ? MachineName() : options.node_name;
  }
  if (options.kubernetes) listing_.emplace(options.pod_resources);
}

void Page::Publish(std::shared_ptr<const Round> round) {
  const std::lock_guard lock(mutex_);
  round_ = std::move(round);
}

void Page::Withdraw() { Publish(nullptr); }

std::shared_ptr<const Round> Page::Current() const {
  const std::lock_guard lock(mutex_);
  return round_;
}

bool Page::available() const { return Current() != nullptr; }

std::map<unsigned, std::string> Page::PodsOfProcesses(const Round& round) const {
  std::map<unsigned, std::string> uids;
  for (const auto& entity : round.entities) {
    for (const auto& process : entity.processes) {
      if (uids.contains(process.pid)) continue;
      // One that has ended since has no pod any more.
      const auto cgroups =
          base::ReadFile(options_.proc / std::to_string(process.pid) / "cgroup").value_or("");
      if (auto uid = PodUidOfCgroups(cgroups); !uid.empty()) uids[process.pid] = std::move(uid);
    }
  }
  return uids;
}

base::Result<std::string> Page::Text() {
  const auto round = Current();
  if (round == nullptr) return std::string();
  OwnersOf owners;
  std::optional<PodListing::Answer> pods;
  if (listing_) {
    pods = listing_->Now(kKubeletLimit);
    if (pods->pods != nullptr) {
      const auto facts = pod_watch_ ? pod_watch_->Facts() : PodFactsByName();
      const auto processes =
          options_.pods.virtual_gpus ? PodsOfProcesses(*round) : std::map<unsigned, std::string>();
      const auto published = slice_watch_ ? slice_watch_->Devices() : PublishedDevices();
      owners = MapOwners(*round, *pods->pods, facts, processes, options_.pods, published);
    }
  }
  if (!options_.job_folder.empty()) {
    TRY_ASSIGN(const auto jobs, ReadJobs(options_.job_folder));
    AddJobs(*round, jobs, owners);
  }
  return ToText(*round, owners, text_options_) + OwnText(*round, pods);
}

std::string Page::OwnText(const Round& round, const std::optional<PodListing::Answer>& pods) const {
  prom::Exposition own;
  const std::chrono::duration<double> age = base::WallClock::now() - round.begun;
  own.AddGauge("pitcrew_metrics_exporter_round_age_seconds",
               "Seconds since the readings on this page were begun", age.count());
  own.AddGauge("pitcrew_metrics_exporter_round_duration_seconds", "How long they took",
               round.took.count());
  if (pods && pods->age) {
    own.AddGauge("pitcrew_metrics_exporter_pods_age_seconds",
                 "Seconds since the kubelet said which pods have which devices",
                 pods->age->count());
  }
  for (const auto& gpu : round.gpus) {
    const std::string reason = gpu.fault ? gpu.fault->reason : "";
    own.AddGauge("pitcrew_metrics_exporter_gpu_readable",
                 "1 for a GPU that was read, 0 for one that could not be, with the reason",
                 gpu.fault ? 0 : 1, {{"gpu", gpu.number}, {"UUID", gpu.uuid}, {"reason", reason}});
  }
  prom::ExposeProcess(own);
  return own.Text();
}

}  // namespace pitcrew::node::metrics_exporter
