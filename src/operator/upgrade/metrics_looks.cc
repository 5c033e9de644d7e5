#include "operator/upgrade/metrics_looks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "api/labels.h"
#include "base/log.h"
#include "codec/json_items.h"
#include "desired/owned_object.h"
#include "driver_upgrade/record.h"
#include "kube/projection.h"
#include "workload/gpu_use.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::ItemsAt;
using codec::Json;
using driver_upgrade::MetricsNote;

constexpr std::string_view kExporterApp = "nvidia-dcgm-exporter";
constexpr std::int64_t kDefaultPort = 9400;
// Of one page. The exporter answers at once, from what it has read already.
constexpr std::chrono::seconds kPatience{5};

std::string ExporterSelector() { return fmt::format("{}={}", api::kAppLabel, kExporterApp); }
std::string OfNode(const std::string& node) { return "spec.nodeName=" + node; }

// The port that is called "metrics", else the first one.
std::int64_t PortOf(const Json& pod) {
  std::optional<std::int64_t> port;
  for (const Json& container : ItemsAt(pod, {"spec", "containers"})) {
    for (const Json& one : ItemsAt(container, {"ports"})) {
      const Json* number = codec::Find(one, {"containerPort"});
      if (number == nullptr || !number->is_number_integer()) continue;
      if (codec::FindString(one, {"name"}) == "metrics") return number->get<std::int64_t>();
      if (!port) port = number->get<std::int64_t>();
    }
  }
  return port.value_or(kDefaultPort);
}

std::string MessageOf(const MetricsNote& note) {
  if (!note.against.empty()) return "The metrics speak against the new driver: " + note.against;
  if (note.unknown.empty()) return "";
  return "The metrics of the new driver's GPUs cannot be read, and do not count: " + note.unknown;
}

// Of the metrics of a node.
struct Known {
  driver_upgrade::Record record;
  std::optional<MetricsNote> note;
};
std::optional<Known> KnownOf(const Json& node) {
  const auto annotation = [&](std::string_view key) {
    return codec::FindString(node, {"metadata", "annotations", key});
  };
  const auto record = driver_upgrade::ReadRecord(annotation(api::kUpgradeLastAnnotation));
  if (!record) return std::nullopt;
  Known known{.record = *record,
              .note = driver_upgrade::ReadMetricsNote(annotation(api::kUpgradeMetricsAnnotation))};
  if (known.note && !known.note->IsOf(*record)) known.note.reset();
  return known;
}

}  // namespace

std::string MetricsUrlOf(const Json& pod) {
  const std::string address = codec::FindString(pod, {"status", "podIP"});
  const bool goes = codec::Find(pod, {"metadata", "deletionTimestamp"}) != nullptr;
  if (address.empty() || goes || !workload::IsReady(pod)) return "";
  const bool has_colons = address.contains(':');
  return fmt::format("http://{}{}{}:{}/metrics", has_colons ? "[" : "", address,
                     has_colons ? "]" : "", PortOf(pod));
}

MetricsLooks::MetricsLooks(World& world, std::function<void(const std::string&)> ask)
    : world_(world), ask_(std::move(ask)) {}

void MetricsLooks::Follow(const std::set<std::string>& nodes) {
  std::erase_if(exporters_, [&](const auto& entry) { return !nodes.contains(entry.first); });
  for (const std::string& node : nodes) {
    auto& informer = exporters_[node];
    if (informer != nullptr) continue;
    informer = std::make_unique<kube::Informer<std::string>>(
        world_.client, kube::kPods,
        kube::ProjectJson<std::string>(
            [](const Json& pod) -> base::Result<std::string> { return MetricsUrlOf(pod); }),
        kube::InformerOptions{.namespace_name = world_.operator_namespace,
                              .label_selector = ExporterSelector(),
                              .field_selector = OfNode(node)});
    informer->AddHandler([this, node](const kube::Change<std::string>& change) {
      const bool ready = change.now != nullptr && !change.now->empty();
      const bool same = change.before != nullptr && ready && *change.before == *change.now;
      if (ready && !same) ask_(node);
    });
    informer->Start();
  }
}

base::Result<std::string> MetricsLooks::FindExporter(const std::string& node,
                                                     const io::StopToken& stop) {
  TRY_ASSIGN(const auto pods,
             world_.client->List(
                 kube::kPods, world_.operator_namespace,
                 {.label_selector = ExporterSelector(), .field_selector = OfNode(node)}, stop));
  for (const Json& pod : pods.items) {
    if (auto url = MetricsUrlOf(pod); !url.empty()) return url;
  }
  return std::string();
}

base::Result<io::HttpClient*> MetricsLooks::Http() {
  const std::lock_guard lock(http_mutex_);
  if (http_ == nullptr) {
    TRY_ASSIGN(http_, io::HttpClient::Create());
  }
  return http_.get();
}

base::Result<driver_upgrade::GpuReadings> MetricsLooks::Read(const std::string& url,
                                                             const io::StopToken& stop) {
  TRY_ASSIGN(io::HttpClient * http, Http());
  io::HttpRequest request;
  request.url = url;
  request.deadline = base::Deadline::After(kPatience);
  TRY_ASSIGN(const io::HttpResponse answer, http->Send(std::move(request), stop));
  if (answer.status == 200) return driver_upgrade::ReadGpuReadings(answer.body);
  return base::Fail(base::Unavailable(
      "MetricsRefused", fmt::format("{} answers with status {}", url, answer.status)));
}

base::Result<std::optional<std::string>> MetricsLooks::Look(const std::string& node,
                                                            const api::UpgradeCanary& canary,
                                                            const io::StopToken& stop) {
  std::optional<std::string> told;
  if (canary.nodes == 0 || !canary.metrics) return told;
  const kube::ObjectKey key{.namespace_name = "", .name = node};
  const auto live = world_.client->Get(kube::kNodes, key, stop);
  if (!live && live.error().code == base::Code::kNotFound) return told;
  if (!live) return base::Fail(live.error().Within("look at the metrics of node " + node));
  const auto known = KnownOf(*live);
  if (!known) return told;
  TRY_ASSIGN(const std::string url, FindExporter(node, stop));
  const auto now = base::WallClock::now();
  const auto until = known->record.finished + std::chrono::seconds(canary.observe_seconds);
  const bool asked_for = known->note && (!known->note->first || !known->note->against.empty());
  if (!driver_upgrade::IsLookDue(known->note, known->record, until, now) &&
      (url.empty() || !asked_for)) {
    return told;
  }
  const base::Result<driver_upgrade::GpuReadings> reading =
      url.empty() ? base::Fail(base::Unavailable("NoMetrics",
                                                 "no pod of the metrics exporter is ready there"))
                  : Read(url, stop);
  if (!reading && reading.error().code == base::Code::kCancelled)
    return base::Fail(reading.error());
  const MetricsNote note = driver_upgrade::NoteAfter(known->note, known->record, now, reading,
                                                     driver_upgrade::OfferedGpus(*live));
  const auto written = world_.client->Patch(
      kube::kNodes, key, kube::PatchType::kMerge,
      {{"metadata",
        {{"annotations", {{std::string(api::kUpgradeMetricsAnnotation), ToText(note)}}}}}},
      {.field_manager = std::string(desired::kFieldManager)}, stop);
  if (!written && written.error().code != base::Code::kNotFound) {
    return base::Fail(written.error().Within("remember the metrics of node " + node));
  }
  base::LogInfo("metrics of a new driver",
                {{"node", node}, {"against", note.against}, {"unknown", note.unknown}});
  const std::string before = known->note ? MessageOf(*known->note) : "";
  if (auto message = MessageOf(note); !message.empty() && message != before) {
    told = std::move(message);
  }
  return told;
}

}  // namespace pitcrew::gpu_operator
