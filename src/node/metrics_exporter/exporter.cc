#include "node/metrics_exporter/exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/config.h"
#include "nvml/guarded.h"

namespace pitcrew::node::metrics_exporter {
namespace {

// A ConfigMap's volume changes by several renames; an editor writes more than once.
constexpr std::chrono::milliseconds kSettleTime{200};
constexpr std::string_view kConfigMapKey = "metrics";
constexpr std::string_view kHangs = "NvmlHangs";  // nvml/guarded.h

constexpr const char* kFrontPage =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><title>GPU Exporter</title></head><body>"
    "<h1>GPU Exporter</h1><ul><li><a href=\"./metrics\">Metrics</a></li>"
    "<li><a href=\"./health\">Health</a></li></ul></body></html>\n";

base::Result<std::shared_ptr<kube::Client>> Connect(const Options& options) {
  TRY_ASSIGN(auto config, kube::LoadConfig(options.kubeconfig));
  return kube::Client::Create(std::move(config), {.user_agent = "dcgm-exporter"});
}

base::Result<std::string> ReadConfigMap(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(const auto client, Connect(options));
  const auto colon = options.config_map.find(':');
  const kube::ObjectKey key{options.config_map.substr(0, colon),
                            options.config_map.substr(colon + 1)};
  TRY_ASSIGN(const auto map, client->Get(kube::kConfigMaps, key, stop));
  const auto data = map.find("data");
  if (data == map.end() || !data->contains(kConfigMapKey)) {
    return base::Fail(
        base::Invalid("NoCounters", fmt::format("the ConfigMap {}/{} has no key \"{}\"",
                                                key.namespace_name, key.name, kConfigMapKey)));
  }
  return data->at(kConfigMapKey).get<std::string>();
}

}  // namespace

Exporter::Exporter(Options options, const io::SignalReceiver& reload, io::StopToken stop)
    : options_(std::move(options)),
      reload_(reload),
      stop_(std::move(stop)),
      page_(options_),
      web_rules_(options_.web_config) {}

// Nobody is answered while the rest goes.
Exporter::~Exporter() { server_.reset(); }

base::Status Exporter::Run() {
  TRY(Begin());
  auto next_round = base::Deadline::After(options_.interval);
  base::Deadline settled;  // when changes of the counter file are looked at
  while (true) {
    const auto ready =
        io::WaitReadable({reload_.fd(), watcher_->fd()}, stop_, std::min(next_round, settled));
    if (!ready && ready.error().code == base::Code::kCancelled) return {};
    if (!ready && ready.error().code != base::Code::kTimeout) return base::Fail(ready.error());
    if (ready && *ready == 0) {
      if (!reload_.Take()) continue;
      base::LogInfo("reading the counters again on SIGHUP");
      TRY(TakeCounters(false));
      Collect();
      continue;
    }
    if (ready) {
      TRY_ASSIGN(const auto changes, watcher_->Take());
      if (!changes.empty() && settled.never()) settled = base::Deadline::After(kSettleTime);
      continue;
    }
    if (settled.passed()) {
      settled = {};
      TRY(HandleFileChanges());
    }
    if (next_round.passed()) {
      next_round = base::Deadline::After(options_.interval);
      Collect();
    }
  }
}

base::Status Exporter::Begin() {
  for (const auto& warning : options_.warnings) base::LogWarning(warning);
  TRY_ASSIGN(watcher_, io::FileWatcher::Create());
  if (options_.config_map.empty()) {
    if (const auto watched = watcher_->Watch(options_.counter_file.parent_path()); !watched) {
      base::LogWarning("changes of the counter file are not seen", watched.error());
    }
  }
  TRY(TakeCounters(true));
  TRY_ASSIGN(collector_, Collector::Open(options_));
  const bool wants_pods =
      options_.pod_labels || options_.pods.pod_uids || options_.pods.virtual_gpus;
  if (options_.kubernetes && (wants_pods || options_.claims)) {
    const auto client = Connect(options_);
    if (!client) {
      base::LogWarning("labels, UIDs and claims of pods are not known", client.error());
    } else {
      if (wants_pods) {
        page_.SetPods(PodWatch::Start(*client, {.node_name = options_.node_name,
                                                .labels = options_.pod_labels,
                                                .label_patterns = options_.pod_label_patterns}));
      }
      if (options_.claims) {
        page_.SetSlices(SliceWatch::Start(*client, options_.node_name, stop_));
      }
    }
  }
  TRY_ASSIGN(auto round, collector_->Collect(counters_));
  page_.Publish(std::make_shared<const Round>(std::move(round)));
  TRY(Listen());
  return {};
}

base::Status Exporter::Listen() {
  TRY_ASSIGN(auto server, web_rules_.ServerOptions());
  server.any_method = true;
  server.timeout = std::chrono::seconds(10);
  server.headers.emplace_back("X-Content-Type-Options", "nosniff");
  std::map<std::string, io::HttpServer::Handler> handlers;
  handlers["/metrics"] = [this] {
    auto text = page_.Text();
    if (text) {
      return io::HttpAnswer{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                            .body = *std::move(text)};
    }
    base::LogError("a scrape failed", text.error());
    return io::HttpAnswer{.status = 500, .body = "internal server error\n"};
  };
  handlers["/health"] = [this] {
    if (page_.available()) {
      return io::HttpAnswer{.body = "OK", .headers = {{"X-Registry-Available", "true"}}};
    }
    return io::HttpAnswer{
        .body = "OK - reload in progress",
        .headers = {{"X-Registry-Available", "false"}, {"X-Reload-In-Progress", "true"}}};
  };
  handlers["/"] = [] {
    return io::HttpAnswer{.content_type = "text/html; charset=utf-8", .body = kFrontPage};
  };
  TRY_ASSIGN(server_,
             io::HttpServer::Start(options_.address, std::move(handlers), std::move(server)));
  port_ = server_->port();
  base::LogInfo("listening", {{"address", options_.address}, {"port", server_->port()}});
  return {};
}

base::Result<CounterFile> Exporter::ReadCounters() const {
  if (!options_.config_map.empty()) {
    TRY_ASSIGN(const auto text, ReadConfigMap(options_, stop_));
    TRY_ASSIGN(auto file, ParseCounters(text, "ConfigMap " + options_.config_map));
    if (!file.counters.empty()) return file;
    return base::Fail(base::Invalid(
        "NoCounters", fmt::format("the ConfigMap {} has no counters", options_.config_map)));
  }
  TRY_ASSIGN(const auto text, base::ReadFile(options_.counter_file));
  return ParseCounters(text, options_.counter_file.string());
}

bool Exporter::CounterFileChanged() {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(options_.counter_file, error);
  if (error) return false;
  return std::exchange(counters_from_, written) != written;
}

base::Status Exporter::TakeCounters(bool at_start) {
  if (options_.config_map.empty()) CounterFileChanged();
  auto file = ReadCounters();
  if (!file && at_start) return base::Fail(file.error());
  if (!file) {
    base::LogError("the counters are not taken; those of before go on", file.error());
    return {};
  }
  for (const auto& warning : file->warnings) base::LogWarning(warning);
  for (const auto& counter : file->counters) {
    const bool unanswered =
        counter.field != nullptr && counter.field->source.kind == Source::Kind::kNothing;
    if (!unanswered) continue;
    base::LogWarning("a counter has no value here",
                     {{"counter", counter.name}, {"reason", counter.field->source.reason}});
  }
  counters_ = std::move(file->counters);
  base::LogInfo("counters", {{"number", counters_.size()}});
  return {};
}

base::Status Exporter::HandleFileChanges() {
  if (!CounterFileChanged()) return {};
  base::LogInfo("the counter file has changed", {{"file", options_.counter_file.string()}});
  TRY(TakeCounters(false));
  Collect();
  return {};
}

void Exporter::Collect() {
  auto round = collector_->Collect(counters_);
  if (round) {
    for (const auto& gpu : round->gpus) {
      if (gpu.fault) base::LogWarning("a GPU was not read", *gpu.fault, {{"gpu", gpu.number}});
    }
    page_.Publish(std::make_shared<const Round>(*std::move(round)));
    return;
  }
  // The last round stays, and says by its age how old it is: nothing is known to have changed. A
  // call that was left behind is over when the driver answers again.
  if (round.error().reason == kHangs) {
    base::LogError("the GPUs were not read; what was read last stays until the driver answers",
                   round.error());
    return;
  }
  // What was read before is not what is: the driver may be another one since.
  base::LogError("the GPUs were not read; the driver is asked anew at the next round",
                 round.error());
  Round empty;
  empty.begun = base::WallClock::now();
  for (const auto& counter : counters_) {
    if (!counter.IsLabel()) empty.families.push_back({counter, {}, round.error().reason});
  }
  page_.Publish(std::make_shared<const Round>(std::move(empty)));
  if (auto opened = Collector::Open(options_)) collector_ = *std::move(opened);
}

}  // namespace pitcrew::node::metrics_exporter
