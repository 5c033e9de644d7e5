#include "dashboard/node_detail.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "dashboard/picture.h"
#include "dashboard/readings.h"
#include "doctor/report_json.h"
#include "doctor/source.h"
#include "fleet/report.h"
#include "kube/request.h"

namespace pitcrew::dashboard {
namespace {

using codec::Json;
using fleet::Cluster;

// Rounds of reading what a look has asked for, as doctor has.
constexpr int kLooks = 3;
constexpr int kExporterPort = 9400;  // metrics-exporter.md section 1
constexpr std::chrono::seconds kExporterPatience{10};

Json Unknown(std::string what, const base::Error& error) {
  return {{"what", std::move(what)}, {"reason", error.ToString()}};
}

// What doctor says when it is asked about this node, with the logs that it asks for.
base::Result<Json> AskDoctor(std::shared_ptr<const Cluster> cluster, const std::string& node,
                             kube::Client* client, const io::StopToken& stop) {
  const fleet::Question question{.nodes = {node}, .pods = {}};
  fleet::Report report = fleet::MakeReport(*cluster, question);
  for (int look = 0; look < kLooks && client != nullptr; ++look) {
    if (report.wanted.logs.empty() && report.wanted.features.empty()) break;
    auto more = std::make_shared<Cluster>(*cluster);
    TRY(doctor::ReadWanted(*client, report.wanted, *more, stop));
    more->Index();
    cluster = std::move(more);
    report = fleet::MakeReport(*cluster, question);
  }
  Json said = doctor::ToJson(report);
  Json json = {{"node", NodeJson(*cluster, report.nodes.at(0), std::move(said["nodes"][0]))}};
  json["unknown"] = std::move(said["unknown"]);
  return json;
}

bool HoldsGpus(const fleet::Pod& pod) {
  return !pod.requests.empty() && pod.phase != "Succeeded" && pod.phase != "Failed";
}

Json PodJson(const fleet::Pod& pod) {
  Json resources = Json::object();
  for (const auto& [resource, request] : pod.requests) {
    resources[resource] = request.limit.value_or(request.requested.value_or(0));
  }
  return {{"namespace", pod.key.name_space},
          {"name", pod.key.name},
          {"phase", pod.phase},
          {"ready", pod.ready},
          {"resources", std::move(resources)}};
}

// The running pods of one node are few, where those of the fleet are too many.
base::Result<std::vector<fleet::Pod>> ReadPodsOf(const std::string& node, kube::Client& client,
                                                 const io::StopToken& stop) {
  TRY_ASSIGN(const kube::ObjectList list,
             client.List(kube::kPods, "",
                         {.label_selector = "", .field_selector = "spec.nodeName=" + node}, stop));
  std::vector<fleet::Pod> pods;
  for (const Json& object : list.items) pods.push_back(fleet::ReadPod(object));
  return pods;
}

base::Status AddPods(const Cluster& cluster, const std::string& node, kube::Client* client,
                     const io::StopToken& stop, Json& detail) {
  Json pods = Json::array();
  if (client == nullptr) {
    for (const fleet::Pod* pod : cluster.PodsOf(node)) {
      if (HoldsGpus(*pod)) pods.push_back(PodJson(*pod));
    }
  } else {
    const auto read = ReadPodsOf(node, *client, stop);
    if (!read) {
      if (read.error().code == base::Code::kCancelled) return base::Fail(read.error());
      detail["unknown"].push_back(Unknown("Pods of the node", read.error()));
      return {};
    }
    for (const fleet::Pod& pod : *read) {
      if (HoldsGpus(pod)) pods.push_back(PodJson(pod));
    }
  }
  detail["pods"] = std::move(pods);
  return {};
}

// Null when none is ready there.
const fleet::Pod* ExporterOn(const Cluster& cluster, const std::string& node) {
  const fleet::Operand& exporter = cluster.operand_table->Named("metrics exporter");
  for (const fleet::Pod* pod : cluster.PodsOf(node)) {
    if (pod->operand == &exporter && pod->ready) return pod;
  }
  return nullptr;
}

base::Status AddReadings(const Cluster& cluster, const std::string& node, kube::Client& client,
                         const io::StopToken& stop, Json& detail) {
  constexpr const char* kWhat = "Readings of the GPUs";
  const fleet::Pod* exporter = ExporterOn(cluster, node);
  if (exporter == nullptr) {
    detail["unknown"].push_back(Unknown(
        kWhat, base::Unavailable("NoExporter", "no metrics exporter is ready on the node")));
    return {};
  }
  const auto text = client.Send(
      kube::RawRequest(fmt::format("/api/v1/namespaces/{}/pods/{}:{}/proxy/metrics",
                                   exporter->key.name_space, exporter->key.name, kExporterPort)),
      {.timeout = kExporterPatience, .retry = {.attempts = 1}}, stop);
  if (text) {
    detail["gpus"] = ToJson(ReadExposition(*text));
    return {};
  }
  if (text.error().code == base::Code::kCancelled) return base::Fail(text.error());
  detail["unknown"].push_back(Unknown(kWhat, text.error()));
  return {};
}

}  // namespace

base::Result<Json> DetailOf(const std::shared_ptr<const Cluster>& cluster, const std::string& node,
                            kube::Client* client, const DetailSettings& settings,
                            const io::StopToken& stop) {
  if (!cluster->nodes.contains(node)) {
    return base::Fail(base::NotFound("NodeNotFound", fmt::format("there is no node {}", node)));
  }
  TRY_ASSIGN(Json detail, AskDoctor(cluster, node, client, stop));
  TRY(AddPods(*cluster, node, client, stop, detail));
  if (client != nullptr && settings.readings) {
    TRY(AddReadings(*cluster, node, *client, stop, detail));
  }
  return detail;
}

}  // namespace pitcrew::dashboard
