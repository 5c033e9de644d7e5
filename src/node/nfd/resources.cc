#include "node/nfd/resources.h"

#include <cstdlib>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::node::nfd {

std::string OwnNamespace() {
  const auto text = base::ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace");
  if (text) return std::string(base::Trim(*text));
  return Environment("KUBERNETES_NAMESPACE");
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace pitcrew::node::nfd
