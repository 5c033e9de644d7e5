#include "desired/operands/monitoring.h"

#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kServiceMonitor = "ServiceMonitor";
constexpr std::string_view kPrometheusRule = "PrometheusRule";

bool IsServed(const Object& object, const Facts& facts) {
  const std::string kind = codec::FindString(object, {"kind"});
  if (kind == kServiceMonitor) return facts.service_monitors;
  if (kind == kPrometheusRule) return facts.prometheus_rules;
  return true;
}

void EditEndpoint(Object& endpoint, const codec::Json& settings) {
  for (const char* member : {"interval", "scrapeTimeout"}) {
    if (auto text = codec::FindString(settings, {member}); !text.empty()) {
      endpoint[member] = std::move(text);
    }
  }
  if (const codec::Json* honor = codec::Find(settings, {"honorLabels"});
      honor != nullptr && honor->is_boolean()) {
    endpoint["honorLabels"] = *honor;
  }
  if (const codec::Json* rules = codec::Find(settings, {"relabelings"});
      rules != nullptr && rules->is_array()) {
    endpoint["relabelings"] = *rules;
  }
}

}  // namespace

void FitMonitoring(std::vector<Object>& objects, const Context& context) {
  std::erase_if(objects, [&](const Object& object) { return !IsServed(object, context.facts); });
  if (Object* monitor = FindObject(objects, kServiceMonitor)) {
    (*monitor)["spec"]["namespaceSelector"] = {
        {"matchNames", Object::array({context.operator_namespace})}};
  }
}

void EditServiceMonitor(std::vector<Object>& objects, const std::optional<codec::Json>& settings) {
  Object* monitor = FindObject(objects, kServiceMonitor);
  if (monitor == nullptr || !settings) return;
  if (const codec::Json* labels = codec::Find(*settings, {"additionalLabels"});
      labels != nullptr && labels->is_object()) {
    for (const auto& [key, value] : labels->items()) {
      if (value.is_string()) SetLabel(*monitor, key, value.get<std::string>());
    }
  }
  EditEndpoint((*monitor)["spec"]["endpoints"][0], *settings);
}

}  // namespace pitcrew::desired
