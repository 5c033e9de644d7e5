// How a person's command reaches its cluster: the flags that all of them have, and the client.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/command_line.h"
#include "base/result.h"
#include "kube/client.h"

namespace pitcrew::snapshot {

struct Connection {
  std::string kubeconfig;  // "": as kubectl finds it
  std::string context;     // "": the current one
  bool operator==(const Connection&) const = default;
};

// --kubeconfig and --context.
class ConnectionFlags {
 public:
  void AddTo(base::CommandLine& line);
  [[nodiscard]] Connection Read() const;  // after Parse

 private:
  std::optional<std::string> kubeconfig_;
  std::optional<std::string> context_;
};

// --namespace of commands that look at the operator.
void AddOperatorNamespace(base::CommandLine& line, std::optional<std::string>& name_space);

// kubectl's order of --kubeconfig, KUBECONFIG, ~/.kube/config (inside a pod: its service account),
// and --context.
base::Result<std::shared_ptr<kube::Client>> Connect(const Connection& connection);

}  // namespace pitcrew::snapshot
