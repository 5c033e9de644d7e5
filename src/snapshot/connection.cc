#include "snapshot/connection.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "kube/config.h"

namespace pitcrew::snapshot {
namespace {

// The kubeconfig that kubectl would take: a context is always one of a file, so the configuration
// of the pod we may be in does not count.
std::string FileOfContexts() {
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const auto listed = base::SplitTrimmed(text("KUBECONFIG"), ':');
  for (const std::string& file : listed) {
    if (std::filesystem::exists(file)) return file;
  }
  return listed.empty() ? text("HOME") + "/.kube/config" : listed.front();
}

}  // namespace

void ConnectionFlags::AddTo(base::CommandLine& line) {
  line.Add({"kubeconfig", "", "kubeconfig file (like kubectl: else KUBECONFIG, ~/.kube/config)"},
           &kubeconfig_);
  line.Add({"context", "", "context of the kubeconfig"}, &context_);
}

Connection ConnectionFlags::Read() const {
  return {.kubeconfig = kubeconfig_.value_or(""), .context = context_.value_or("")};
}

void AddOperatorNamespace(base::CommandLine& line, std::optional<std::string>& name_space) {
  line.Add({"namespace,n", "", "the operator's namespace (found by itself where it can be)"},
           &name_space);
}

base::Result<std::shared_ptr<kube::Client>> Connect(const Connection& connection) {
  const auto& [kubeconfig, context] = connection;
  const std::string file = kubeconfig.empty() && !context.empty() ? FileOfContexts() : kubeconfig;
  TRY_ASSIGN(kube::Config config,
             context.empty() ? kube::LoadConfig(file) : kube::LoadKubeconfig(file, context));
  return kube::Client::Create(std::move(config), {.user_agent = "pitcrew"});
}

}  // namespace pitcrew::snapshot
