// The kubelet's side of the device plugin API for programs in other languages: it takes
// registrations, follows what each plugin lists, and asks what it is told to ask.
//
//   test_kubelet FOLDER        serves FOLDER/kubelet.sock until the end of its standard input
//
// Lines of JSON. In: {"resource": R, "options": true}, {"resource": R, "allocate": [[ID, ...],
// ...]} or
// {"resource": R, "prefer": {"available": [...], "must_include": [...], "size": N}}; the answers
// come in that order as
// {"answer": ...} or {"error": TEXT}. In between, as they happen: {"registered": {...}},
// {"resource": R, "list": [...]} and {"resource": R, "closed": TEXT}, the end of a list's stream.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpc/testing/fake_kubelet.h"

namespace pitcrew {
namespace {

using nlohmann::json;
using rpc::testing::FakeKubelet;
using rpc::testing::PluginClient;
using rpc::testing::TakenRegistration;

json ToJson(const rpc::PluginDevice& device) {
  json value = {{"id", device.id}, {"healthy", device.healthy}};
  if (device.numa_node) value["numa"] = *device.numa_node;
  return value;
}

json ToJson(const rpc::ContainerAllocation& allocation) {
  json value = {{"envs", allocation.envs},
                {"annotations", allocation.annotations},
                {"cdi_devices", allocation.cdi_devices},
                {"mounts", json::array()},
                {"devices", json::array()}};
  for (const auto& mount : allocation.mounts) {
    value["mounts"].push_back({{"container", mount.container_path},
                               {"host", mount.host_path},
                               {"read_only", mount.read_only}});
  }
  for (const auto& device : allocation.devices) {
    value["devices"].push_back({{"container", device.container_path},
                                {"host", device.host_path},
                                {"permissions", device.permissions}});
  }
  return value;
}

json ToJson(const TakenRegistration& taken) {
  return {{"version", taken.version},
          {"endpoint", taken.endpoint},
          {"resource", taken.resource_name},
          {"preferred_allocation", taken.preferred_allocation_available},
          {"pre_start", taken.pre_start_required}};
}

class Conversation {
 public:
  explicit Conversation(std::filesystem::path folder)
      : folder_(std::move(folder)), kubelet_(FakeKubelet::Start(folder_)) {}

  [[nodiscard]] bool serving() const { return kubelet_ != nullptr; }

  // Each registration is told, and its resource followed, until the process ends.
  void TakeRegistrations() {
    for (std::size_t count = 0;;) {
      const auto taken = kubelet_->WaitForRegistrations(count + 1);
      for (; count < taken.size(); ++count) {
        Tell({{"registered", ToJson(taken[count])}});
        Follow(taken[count]);
      }
    }
  }

  void Answer(const std::string& line) {
    const auto request = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!request.is_object() || !request.contains("resource")) {
      Tell({{"error", "not a request: " + line}});
      return;
    }
    const auto client = ClientOf(request["resource"].get<std::string>());
    Tell(client ? Ask(*client, request) : json{{"error", "nobody registered this resource"}});
  }

 private:
  static json Ask(PluginClient& client, const json& request) {
    if (request.contains("options")) {
      const auto answer = client.PreferredAllocationAvailable();
      return answer ? json{{"answer", *answer}} : json{{"error", answer.error().message}};
    }
    if (request.contains("allocate")) {
      const auto answer =
          client.Allocate(request["allocate"].get<std::vector<std::vector<std::string>>>());
      if (!answer) return {{"error", answer.error().message}};
      json containers = json::array();
      for (const auto& container : *answer) containers.push_back(ToJson(container));
      return {{"answer", std::move(containers)}};
    }
    const auto& prefer = request["prefer"];
    const auto answer = client.PreferredAllocation(
        {.available = prefer["available"].get<std::vector<std::string>>(),
         .must_include = prefer["must_include"].get<std::vector<std::string>>(),
         .size = prefer["size"].get<int>()});
    return answer ? json{{"answer", *answer}} : json{{"error", answer.error().message}};
  }

  std::shared_ptr<PluginClient> ClientOf(const std::string& resource) {
    const std::lock_guard lock(clients_mutex_);
    const auto found = clients_.find(resource);
    return found == clients_.end() ? nullptr : found->second;
  }

  void Follow(const TakenRegistration& taken) {
    const std::shared_ptr<PluginClient> client = PluginClient::Connect(folder_ / taken.endpoint);
    {
      const std::lock_guard lock(clients_mutex_);
      clients_[taken.resource_name] = client;
    }
    std::thread([this, client, resource = taken.resource_name] {
      while (true) {
        const auto list = client->NextList();
        if (!list) {
          Tell({{"resource", resource}, {"closed", list.error().message}});
          return;
        }
        json devices = json::array();
        for (const auto& device : *list) devices.push_back(ToJson(device));
        Tell({{"resource", resource}, {"list", std::move(devices)}});
      }
    }).detach();
  }

  void Tell(const json& message) {
    const std::lock_guard lock(output_mutex_);
    std::cout << message.dump() << std::endl;
  }

  std::filesystem::path folder_;
  std::unique_ptr<FakeKubelet> kubelet_;
  std::mutex clients_mutex_;
  std::map<std::string, std::shared_ptr<PluginClient>> clients_;
  std::mutex output_mutex_;
};

}  // namespace
}  // namespace pitcrew

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: test_kubelet FOLDER\n";
    return 2;
  }
  pitcrew::Conversation conversation(argv[1]);
  if (!conversation.serving()) {
    std::cerr << "cannot listen in " << argv[1] << "\n";
    return 1;
  }
  std::cout << "{\"serving\": true}" << std::endl;
  std::thread([&conversation] { conversation.TakeRegistrations(); }).detach();
  for (std::string line; std::getline(std::cin, line);) conversation.Answer(line);
  // The threads wait in calls that nobody can end.
  std::_Exit(0);
}
