#include "kube/config.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/file.h"
#include "base/strings.h"
#include "kube/credentials.h"

namespace pitcrew::kube {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool Exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

base::Result<Config> LoadKubeconfig(const std::filesystem::path& file, std::string_view context) {
  const auto text = base::ReadFile(file);
  if (!text) return base::Fail(text.error().Within("kubeconfig"));
  std::error_code problem;
  auto folder = std::filesystem::absolute(file, problem).parent_path();
  return ParseKubeconfig(*text, file.string(), folder, context);
}

base::Result<Config> LoadInCluster(const std::filesystem::path& service_account) {
  std::string host = Environment("KUBERNETES_SERVICE_HOST");
  const std::string port = Environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return base::Fail(base::Unavailable(
        "NotInCluster",
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is not a pod; give "
        "a kubeconfig"));
  }
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  Config config;
  config.server = fmt::format("https://{}:{}", host, port);
  config.origin = "in-cluster";
  auto ca = base::ReadFile(service_account / "ca.crt");
  if (!ca) return base::Fail(CredentialProblem(ca.error()).Within("in-cluster configuration"));
  config.ca_pem = *std::move(ca);
  config.ca_file = service_account / "ca.crt";
  if (const auto name = base::ReadFile(service_account / "namespace")) {
    config.default_namespace = base::Trim(*name);
  }
  UserSettings user;
  user.token_file = service_account / "token";
  config.credentials = MakeCredentialSource(std::move(user));
  if (const auto first = config.credentials->Current({}); !first) {
    return base::Fail(first.error().Within("in-cluster configuration"));
  }
  return config;
}

base::Result<Config> LoadConfig(const std::filesystem::path& explicit_file) {
  if (!explicit_file.empty()) return LoadKubeconfig(explicit_file);
  const auto listed = base::SplitTrimmed(Environment("KUBECONFIG"), ':');
  for (const auto& file : listed) {
    if (Exists(file)) return LoadKubeconfig(file);
  }
  if (!listed.empty()) return LoadKubeconfig(listed.front());
  auto in_cluster = LoadInCluster();
  if (in_cluster || in_cluster.error().reason != "NotInCluster") return in_cluster;
  const auto home = std::filesystem::path(Environment("HOME")) / ".kube" / "config";
  if (Exists(home)) return LoadKubeconfig(home);
  return base::Fail(base::Unavailable(
      "NoClusterConfiguration",
      fmt::format(
          "neither --kubeconfig nor KUBECONFIG is given, this is not a pod, and {} does not "
          "exist",
          home.string())));
}

}  // namespace pitcrew::kube
