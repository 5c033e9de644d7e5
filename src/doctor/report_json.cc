#include "doctor/report_json.h"

namespace pitcrew::doctor {
namespace {

using codec::Json;

void AddTime(Json& object, const char* name, fleet::Time time) {
  if (time) object[name] = base::FormatRfc3339(*time);
}

Json FindingJson(const fleet::Finding& finding) {
  Json evidence = Json::array();
  for (const fleet::Evidence& one : finding.evidence) {
    Json entry = {{"object", one.object}, {"text", one.text}};
    if (!one.field.empty()) entry["field"] = one.field;
    AddTime(entry, "at", one.at);
    evidence.push_back(std::move(entry));
  }
  Json json = {{"id", finding.id},
               {"object", finding.object},
               {"summary", finding.summary},
               {"evidence", std::move(evidence)},
               {"fix", finding.fix}};
  if (finding.stage != fleet::Stage::kReady) json["stage"] = ToString(finding.stage);
  AddTime(json, "since", finding.since);
  return json;
}

Json FindingsJson(const std::vector<fleet::Finding>& findings) {
  Json list = Json::array();
  for (const fleet::Finding& finding : findings) list.push_back(FindingJson(finding));
  return list;
}

Json NodeJson(const fleet::NodeReport& node) {
  Json offers = Json::object();
  for (const auto& offer : node.offers) {
    offers[offer.resource] = {{"capacity", offer.capacity}, {"allocatable", offer.allocatable}};
    if (offer.former) offers[offer.resource]["former"] = true;
  }
  Json json = {{"name", node.name},
               {"workload", ToString(node.workload)},
               {"stage", ToString(node.stage)},
               {"ready", node.ready()},
               {"resources", std::move(offers)}};
  if (!node.product.empty()) json["product"] = node.product;
  if (!node.driver_version.empty()) json["driverVersion"] = node.driver_version;
  if (!node.qualification.empty()) json["qualification"] = node.qualification;
  AddTime(json, "since", node.since);
  if (node.broken) json["finding"] = FindingJson(*node.broken);
  return json;
}

Json OperandJson(const fleet::OperandReport& operand) {
  Json json = {{"name", operand.name}, {"desired", operand.desired}, {"ready", operand.ready}};
  if (!operand.behind.empty()) {
    json["behind"] = operand.behind;
    json["reason"] = operand.reason;
  }
  return json;
}

Json DriverJson(const fleet::DriverReport& driver) {
  Json upgrade = Json::object();
  for (const auto& [state, count] : driver.upgrade) upgrade[state] = count;
  return {{"name", driver.name},   {"state", driver.state},     {"version", driver.version},
          {"nodes", driver.nodes}, {"message", driver.message}, {"upgrade", std::move(upgrade)},
          {"held", driver.held}};
}

}  // namespace

Json ToJson(const fleet::Report& report) {
  Json json = {{"time", base::FormatRfc3339(report.now)},
               {"namespace", report.name_space},
               {"ready", report.all_ready()},
               {"operands", Json::array()},
               {"gpuNodes", {{"ready", report.ready_nodes()}, {"total", report.nodes.size()}}},
               {"otherNodes", report.other_nodes},
               {"undiscoveredNodes", report.undiscovered},
               {"nodes", Json::array()},
               {"pods", FindingsJson(report.pods)},
               {"cluster", FindingsJson(report.cluster)},
               {"unknown", Json::array()}};
  if (report.policy) {
    json["policy"] = {{"name", report.policy->name},
                      {"state", report.policy->state},
                      {"message", report.policy->message}};
    AddTime(json["policy"], "since", report.policy->since);
  }
  if (report.upgrade) {
    Json states = Json::object();
    for (const auto& [state, count] : report.upgrade->states) states[state] = count;
    Json waiting = Json::array();
    for (const auto& [why, nodes] : report.upgrade->waiting) {
      waiting.push_back({{"reason", why}, {"nodes", nodes}});
    }
    json["driverUpgrade"] = {{"states", std::move(states)},
                             {"held", report.upgrade->held},
                             {"waiting", std::move(waiting)}};
  }
  for (const auto& driver : report.drivers) json["drivers"].push_back(DriverJson(driver));
  for (const auto& operand : report.operands) json["operands"].push_back(OperandJson(operand));
  for (const auto& node : report.nodes) json["nodes"].push_back(NodeJson(node));
  for (const auto& unread : report.unread) {
    json["unknown"].push_back({{"what", unread.what}, {"reason", unread.reason}});
  }
  return json;
}

}  // namespace pitcrew::doctor
