#include "node/metrics_exporter/collector.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "nvml/abi_metrics.h"
#include "nvml/guarded.h"

namespace pitcrew::node::metrics_exporter {

XidListener::XidListener(std::shared_ptr<nvml::Library> library) : library_(std::move(library)) {}

XidListener::~XidListener() { Stop(); }

void XidListener::Stop() {
  if (thread_.joinable()) {
    stop_->Stop();
    thread_.join();
  }
  events_.reset();
  followed_.clear();
}

void XidListener::Follow(const std::vector<std::string>& uuids) {
  const bool failed = [&] {
    const std::lock_guard lock(mutex_);
    return std::exchange(failed_, false);
  }();
  if (failed) Stop();
  if (!events_) events_ = MakeEventSet();
  if (!events_) return;
  for (const auto& uuid : uuids) {
    if (std::ranges::find(followed_, uuid) != followed_.end()) continue;
    const auto registered =
        events_->Register(uuid, static_cast<std::uint64_t>(nvml::EventType::kXid));
    if (!registered) {
      base::LogWarning("XIDs of a GPU are not heard", registered.error(), {{"gpu", uuid}});
    } else if (!thread_.joinable()) {
      stop_ = std::make_unique<io::StopSource>();
      thread_ = std::thread([this] { Listen(); });
    }
  }
  followed_ = uuids;
}

std::unique_ptr<nvml::EventSet> XidListener::MakeEventSet() {
  auto events = library_->CreateEventSet();
  if (events) return *std::move(events);
  if (events.error().reason != refusal_) base::LogWarning("XIDs are not heard", events.error());
  refusal_ = events.error().reason;
  return nullptr;
}

void XidListener::Listen() {
  const auto stop = stop_->token();
  while (true) {
    auto event = events_->Wait(stop.fd(), std::nullopt);
    const std::lock_guard lock(mutex_);
    if (event) {
      base::LogWarning("XID", {{"gpu", event->device_uuid}, {"xid", event->data}});
      heard_.push_back({base::SteadyClock::now(), *std::move(event)});
      continue;
    }
    if (event.error().code == base::Code::kCancelled) return;
    base::LogWarning("XIDs are not heard until the next round", event.error());
    failed_ = true;
    return;
  }
}

std::vector<XidListener::Heard> XidListener::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(heard_, {});
}

base::Result<std::unique_ptr<Collector>> Collector::Open(const Options& options) {
  TRY_ASSIGN(auto library, nvml::OpenGuarded(options.driver_roots, {.limit = options.nvml_limit}));
  return std::unique_ptr<Collector>(new Collector(options, std::move(library)));
}

Collector::Collector(const Options& options, std::shared_ptr<nvml::Library> library)
    : options_(options),
      library_(std::move(library)),
      meter_(library_->MakeMeter()),
      link_meter_(library_->MakeMeter()),
      xids_(library_) {}

LinksUp Collector::FindLinks(const std::vector<Counter>& counters,
                             const gpu::Inventory& inventory) {
  LinksUp up;
  if (!AsksForLinks(counters)) return up;
  std::vector<nvml::GpuQuestions> questions;
  for (const auto& device : inventory.devices) {
    if (device.fault || device.uuid.empty()) continue;
    nvml::Part part;
    for (unsigned link = 0; link < nvml::abi::kNvLinkCount; ++link) {
      part.questions.push_back({nvml::Quantity::kNvLinkState, static_cast<std::uint16_t>(link)});
    }
    questions.push_back({device.uuid, {std::move(part)}});
  }
  const auto answers = link_meter_->Read(questions);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!answers[i]) continue;
    const auto& states = answers[i]->parts.front().answers;
    for (unsigned link = 0; link < states.size(); ++link) {
      const auto* state = std::get_if<std::int64_t>(&states[link]);
      if (state != nullptr && *state == 1) up[questions[i].uuid].push_back(link);
    }
  }
  return up;
}

void Collector::TakeXids() {
  for (const auto& heard : xids_.Take()) {
    if (heard.event.type != nvml::EventType::kXid) continue;
    std::optional<unsigned> instance;
    if (heard.event.gpu_instance_id != nvml::kNoInstance) instance = heard.event.gpu_instance_id;
    history_.xids.Add(heard.time, heard.event.device_uuid, instance, heard.event.data);
  }
}

base::Result<Round> Collector::Collect(const std::vector<Counter>& counters) {
  const auto begun = base::WallClock::now();
  const auto start = base::SteadyClock::now();
  TRY_ASSIGN(const auto inventory, library_->ReadInventory());
  if (first_) TRY(CheckSelection(options_.gpus, inventory));
  first_ = false;
  std::vector<std::string> uuids;
  for (const auto& device : inventory.devices) {
    if (!device.uuid.empty()) uuids.push_back(device.uuid);
  }
  xids_.Follow(uuids);
  PlanOptions plan_options{.gpus = options_.gpus,
                           .switches = options_.switches,
                           .replace_blanks = options_.replace_blanks,
                           .processes = options_.kubernetes && options_.pods.virtual_gpus};
  const auto plan = MakePlan(counters, inventory, FindLinks(counters, inventory), plan_options);
  const auto answers = meter_->Read(plan.questions);
  TakeXids();
  Round round = MakeRound({.counters = counters,
                           .inventory = inventory,
                           .plan = plan,
                           .answers = answers,
                           .now = base::SteadyClock::now(),
                           .windows = options_.windows},
                          history_);
  // Half a round of a driver that has begun to hang is none: it says so when it is asked again.
  const bool hangs = std::ranges::any_of(
      round.gpus, [](const auto& gpu) { return gpu.fault && gpu.fault->reason == "NvmlHangs"; });
  if (hangs) TRY(library_->ReadDriver());
  round.begun = begun;
  round.took = base::SteadyClock::now() - start;
  return round;
}

}  // namespace pitcrew::node::metrics_exporter
