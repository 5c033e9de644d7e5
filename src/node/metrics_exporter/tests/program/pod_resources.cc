// A kubelet's pod resources for programs in other languages.
//
//   test_pod_resources SOCKET
//
// Each line of its standard input is what is answered from then on: a JSON list of
// {"namespace": N, "pod": P, "container": C, "resource": R, "ids": [ID, ...]}. Each is acknowledged
// by a line. Ends with its standard input.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "rpc/testing/fake_pod_resources.h"

int main(int argc, char** argv) {
  using pitcrew::rpc::PodDevices;
  if (argc != 2) return 2;
  const auto kubelet = pitcrew::rpc::testing::FakePodResources::Start(argv[1]);
  if (!kubelet) return 1;
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<PodDevices> pods;
    for (const auto& entry : nlohmann::json::parse(line)) {
      pods.push_back({entry.at("namespace"),
                      entry.at("pod"),
                      {{entry.at("resource"), entry.at("ids"), entry.at("container")}}});
    }
    kubelet->Set(std::move(pods));
    std::cout << "set" << std::endl;
  }
  return 0;
}
