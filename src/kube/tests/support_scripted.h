// What a scripted API server says of ConfigMaps, and clients that are quick to try again.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "codec/json.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "loopback/scripted_server.h"

namespace pitcrew::kube {

inline std::string StatusBody(int code, const std::string& reason) {
  return codec::ToJsonText({{"kind", "Status"},
                            {"apiVersion", "v1"},
                            {"status", "Failure"},
                            {"message", "scripted"},
                            {"reason", reason},
                            {"code", code}});
}

inline codec::Json Item(const std::string& name, const std::string& version,
                        const std::string& value = "x") {
  return {{"metadata",
           {{"name", name},
            {"namespace", "n"},
            {"uid", "uid-of-" + name},
            {"resourceVersion", version}}},
          {"data", {{"value", value}}}};
}

inline std::string ListBody(const std::string& version, const codec::Json& items,
                            const std::string& next = "") {
  codec::Json list{
      {"kind", "ConfigMapList"}, {"metadata", {{"resourceVersion", version}}}, {"items", items}};
  if (!next.empty()) list["metadata"]["continue"] = next;
  return codec::ToJsonText(list);
}

inline std::string EventLine(const std::string& type, const codec::Json& object) {
  return codec::ToJsonText({{"type", type}, {"object", object}}) + "\n";
}

inline bool IsWatch(const testing::ScriptedRequest& request) {
  return request.query.find("watch=true") != std::string::npos;
}

inline std::shared_ptr<Client> ClientOf(const testing::ScriptedServer& server,
                                        ClientOptions options = {}) {
  Config config;
  config.server = server.url();
  options.limits.retry.backoff.base = std::chrono::milliseconds(1);
  return *Client::Create(config, options);
}

inline InformerOptions QuickOptions() {
  InformerOptions options{.namespace_name = "n"};
  options.backoff.base = std::chrono::milliseconds(1);
  options.backoff.cap = std::chrono::milliseconds(5);
  return options;
}

}  // namespace pitcrew::kube
