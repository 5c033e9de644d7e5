// Where the API server is and who we are: from a kubeconfig file or from inside a cluster.
// Loading reads files and nothing else; the first request finds out whether the server is there.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::kube {

// What a request proves its sender with; empty parts are not used.
struct Credentials {
  std::string bearer_token{};
  std::string user_name{};  // basic authentication
  std::string password{};
  std::string client_certificate_pem{};
  std::string client_key_pem{};

  bool operator==(const Credentials&) const = default;
};

// Thread-safe. Current() is called for every request and is cheap unless something has to be
// fetched again (rotated file, expired token of an exec plugin). Its errors reach callers as
// kUnavailable: who we are is unknown, and with it everything that was asked for.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  virtual base::Result<Credentials> Current(const io::StopToken& stop) = 0;
  // The server answered 401: what Current() gave last must be fetched anew.
  virtual void Reject() {}
};

struct Config {
  std::string server{};  // "https://host:port" with an optional path, no slash at the end
  // As in io::TlsSettings. With a file, ca_pem is what it held when this was loaded.
  std::string ca_pem{};
  std::filesystem::path ca_file{};
  bool insecure_skip_tls_verify = false;
  std::string tls_server_name{};  // empty: the host of `server`
  std::string proxy_url{};        // empty: the environment's proxies
  std::string default_namespace = "default";
  // Where this came from, for messages: "kubeconfig /etc/x, context y" or "in-cluster".
  std::string origin{};
  std::shared_ptr<CredentialSource> credentials{};  // never null in a loaded Config
};

// A source whose credentials never change.
std::shared_ptr<CredentialSource> StaticCredentials(Credentials credentials);

// `context` empty: the file's current-context. Errors are kInvalid with "file:line:column: what is
// wrong; what would be right", also where a file that it names cannot be read; kNotFound when the
// file itself is missing.
base::Result<Config> LoadKubeconfig(const std::filesystem::path& file,
                                    std::string_view context = "");

// The parts of a kubeconfig text; relative file names are taken from `folder`.
base::Result<Config> ParseKubeconfig(std::string_view text, std::string_view source,
                                     const std::filesystem::path& folder,
                                     std::string_view context = "");

// KUBERNETES_SERVICE_HOST and _PORT and the service account's files, whose token is read again when
// its file changes and at least every minute of use. kUnavailable "NotInCluster" outside a cluster,
// and "CredentialsUnreadable" when a file of the service account is missing.
base::Result<Config> LoadInCluster(
    const std::filesystem::path& service_account = "/var/run/secrets/kubernetes.io/serviceaccount");

// `explicit_file` (a --kubeconfig flag) if not empty, else the first file named by KUBECONFIG, else
// in-cluster, else ~/.kube/config: controller-runtime's order.
base::Result<Config> LoadConfig(const std::filesystem::path& explicit_file = {});

}  // namespace pitcrew::kube
