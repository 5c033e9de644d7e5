#include "dashboard/picture.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "api/labels.h"
#include "dashboard/node_gpus.h"
#include "doctor/report_json.h"

namespace pitcrew::dashboard {
namespace {

using codec::Json;

// Whether parts of a list are told their place in it. Where they come and go all the time, each
// would change with every other one.
enum class Order { kTold, kFree };

// Parts of a list, each under the prefix and a member of its own; of equal names the later ones get
// a number.
void PutEach(Json list, std::string_view prefix, const char* member, Order order,
             Picture& picture) {
  std::map<std::string, int> seen;
  int place = 0;
  for (Json& part : list) {
    if (order == Order::kTold) part["order"] = place++;
    const std::string name = std::string(prefix) + codec::FindString(part, {member});
    const int before = seen[name]++;
    picture[before == 0 ? name : fmt::format("{} {}", name, before + 1)] = codec::ToJsonText(part);
  }
}

// As an object of JSON, without reading the parts again.
std::string SetOf(const std::vector<const Picture::value_type*>& parts) {
  std::string text = R"("set":{)";
  for (const auto* part : parts) {
    if (text.back() != '{') text += ',';
    text += codec::ToJsonText(Json(part->first));
    text += ':';
    text += part->second;
  }
  return text + '}';
}

Json TotalsOf(const fleet::Report& report) {
  return {{"namespace", report.name_space},
          {"otherNodes", report.other_nodes},
          {"undiscoveredNodes", report.undiscovered},
          {"judged", report.judged},
          {"ready", report.all_ready()}};
}

}  // namespace

Json NodeJson(const fleet::Cluster& cluster, const fleet::NodeReport& node, Json doctor_says) {
  Json chain = Json::array();
  for (const fleet::Stage stage : node.links) chain.push_back(ToString(stage));
  doctor_says["chain"] = std::move(chain);
  if (!node.upgrade_waits.empty()) doctor_says["upgradeWaits"] = node.upgrade_waits;
  const auto found = cluster.nodes.find(node.name);
  if (found == cluster.nodes.end()) return doctor_says;
  doctor_says["gpus"] = ToJson(GpusOf(found->second));
  if (found->second.unschedulable) doctor_says["cordoned"] = true;
  const auto upgrade = found->second.Label(api::kUpgradeState);
  if (!upgrade.empty()) doctor_says["upgrade"] = upgrade;
  return doctor_says;
}

Picture PictureOf(const fleet::Cluster& cluster, const fleet::Report& report) {
  Json json = doctor::ToJson(report);
  Picture picture;
  picture["totals"] = codec::ToJsonText(TotalsOf(report));
  if (report.policy) picture["policy"] = codec::ToJsonText(json["policy"]);
  if (report.upgrade) picture["upgrade"] = codec::ToJsonText(json["driverUpgrade"]);
  for (std::size_t i = 0; i < report.nodes.size(); ++i) {
    picture["node/" + report.nodes[i].name] =
        codec::ToJsonText(NodeJson(cluster, report.nodes[i], std::move(json["nodes"][i])));
  }
  PutEach(std::move(json["operands"]), "operand/", "name", Order::kTold, picture);
  PutEach(std::move(json["cluster"]), "finding/", "id", Order::kTold, picture);
  PutEach(std::move(json["pods"]), "pod/", "object", Order::kFree, picture);
  PutEach(std::move(json["unknown"]), "unknown/", "what", Order::kFree, picture);
  return picture;
}

std::string ChangeBetween(const Picture& before, const Picture& now) {
  std::vector<const Picture::value_type*> set;
  Json gone = Json::array();
  auto old = before.begin();
  auto fresh = now.begin();
  while (old != before.end() || fresh != now.end()) {
    if (fresh == now.end() || (old != before.end() && old->first < fresh->first)) {
      gone.push_back((old++)->first);
    } else if (old == before.end() || fresh->first < old->first) {
      set.push_back(&*fresh++);
    } else {
      if (old->second != fresh->second) set.push_back(&*fresh);
      ++old;
      ++fresh;
    }
  }
  if (set.empty() && gone.empty()) return "";
  std::string text = "{";
  if (!set.empty()) text += SetOf(set);
  if (!gone.empty()) {
    text += fmt::format(R"({}"gone":{})", set.empty() ? "" : ",", codec::ToJsonText(gone));
  }
  return text + "}";
}

std::string WholeOf(const Picture& picture) {
  std::vector<const Picture::value_type*> parts;
  parts.reserve(picture.size());
  for (const auto& part : picture) parts.push_back(&part);
  return "{" + SetOf(parts) + "}";
}

}  // namespace pitcrew::dashboard
