// As much of an API server as a driver manager asks on a node without pods: one Node, in a file
// that the scenario reads, and Events, one a line in another. An API server itself is too large for
// the virtual machine; the driver manager's own tests have a real one.
//
//     node_server PORT NODE_FILE EVENTS_FILE
#include <httplib.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <string>

#include "codec/json.h"

namespace {

using pitcrew::codec::Json;

Json ReadFile(const char* path) {
  std::ifstream file(path);
  return Json::parse(file);
}

void Answer(httplib::Response& response, int status, const Json& body) {
  response.status = status;
  response.set_content(body.dump(), "application/json");
}

Json Failure(int code, const char* reason) {
  return {{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Failure"},
          {"reason", reason}, {"message", reason},  {"code", code}};
}

// A merge patch that names a version holds only for that one.
void PatchNode(const char* path, const Json& patch, httplib::Response& response) {
  Json node = ReadFile(path);
  const std::string version = node["metadata"]["resourceVersion"];
  if (patch.contains("/metadata/resourceVersion"_json_pointer) &&
      patch["metadata"]["resourceVersion"] != version) {
    return Answer(response, 409, Failure(409, "Conflict"));
  }
  node.merge_patch(patch);
  node["metadata"]["resourceVersion"] = std::to_string(std::stoi(version) + 1);
  std::ofstream(path) << node.dump() << '\n';
  Answer(response, 200, node);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const char* const node = argv[2];
  const char* const events = argv[3];
  httplib::Server server;
  std::mutex files;
  server.Get("/api/v1/nodes/[^/]+", [&](const httplib::Request&, httplib::Response& response) {
    const std::lock_guard lock(files);
    Answer(response, 200, ReadFile(node));
  });
  server.Patch("/api/v1/nodes/[^/]+",
               [&](const httplib::Request& request, httplib::Response& response) {
                 const std::lock_guard lock(files);
                 PatchNode(node, Json::parse(request.body), response);
               });
  server.Get(R"(/api/v1(/namespaces/[^/]+)?/pods)",
             [](const httplib::Request& request, httplib::Response& response) {
               // A watch that ends before anything has happened.
               if (request.has_param("watch")) return response.set_content("", "application/json");
               Answer(response, 200,
                      {{"kind", "PodList"},
                       {"apiVersion", "v1"},
                       {"metadata", {{"resourceVersion", "1"}}},
                       {"items", Json::array()}});
             });
  const auto keep_event = [&](const httplib::Request& request, httplib::Response& response) {
    const Json event = Json::parse(request.body);
    const std::lock_guard lock(files);
    std::ofstream(events, std::ios::app) << event.dump() << '\n';
    Answer(response, 201, event);
  };
  server.Post("/.*/events", keep_event);
  server.Patch("/.*/events/[^/]+", keep_event);
  server.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (response.body.empty() && response.status >= 400) {
      std::cerr << "not known here: " << request.method << " " << request.path << std::endl;
      Answer(response, response.status, Failure(response.status, "NotFound"));
    }
  });
  if (!server.bind_to_port("127.0.0.1", std::atoi(argv[1]))) return 1;
  std::cout << "serving" << std::endl;
  return server.listen_after_bind() ? 0 : 1;
}
