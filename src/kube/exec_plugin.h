// Credential plugins of a kubeconfig (client.authentication.k8s.io): a program that prints an
// ExecCredential. Started directly with pipes, never through a shell.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/stop.h"
#include "kube/config.h"

namespace pitcrew::kube {

struct ExecPlugin {
  std::string api_version{};  // client.authentication.k8s.io/v1 or /v1beta1
  std::string command{};      // a path, or a name looked up in PATH
  std::vector<std::string> arguments{};
  std::vector<std::pair<std::string, std::string>> environment{};  // added to ours
  std::string install_hint{};
  // spec.cluster of KUBERNETES_EXEC_INFO as JSON text; empty: not asked for.
  std::string cluster_info{};
};

struct ExecCredential {
  Credentials credentials{};
  std::optional<base::WallClock::time_point> expires{};
};

// What the program printed. kInvalid "ExecPluginOutput" says what is wrong with it.
base::Result<ExecCredential> ParseExecCredential(std::string_view output, const ExecPlugin& plugin);

// Runs the program for at most `timeout`. kUnavailable "ExecPluginFailed" with the end of what it
// wrote to standard error; kUnavailable "ExecPluginMissing" with the install hint.
base::Result<ExecCredential> RunExecPlugin(const ExecPlugin& plugin,
                                           std::chrono::milliseconds timeout,
                                           const io::StopToken& stop);

}  // namespace pitcrew::kube
