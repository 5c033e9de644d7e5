// A real kube-apiserver with its etcd on free loopback ports in a temporary folder: no nodes, no
// controllers, nothing of the machine's own clusters is touched.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "kube/client.h"
#include "kube/config.h"
#include "loopback/child_process.h"

namespace pitcrew::testing {

struct ApiServerOptions {
  std::vector<std::string> extra_arguments{};  // of kube-apiserver
};

class ApiServer {
 public:
  // Takes three to five seconds: returns once /readyz is ok.
  static base::Result<std::unique_ptr<ApiServer>> Start(ApiServerOptions options = {});
  // One server for all tests of the process, started at the first call and ended with the process.
  // Tests keep apart by namespaces or names of their own. Ends the process with a clear message
  // when it cannot be started.
  static ApiServer& Shared();
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // As a member of system:masters, by token. Another server URL (a proxy's) may be given.
  [[nodiscard]] kube::Config config(const std::string& server = "") const;
  // The same as a kubeconfig file, for other programs.
  [[nodiscard]] std::filesystem::path kubeconfig() const { return folder_ / "kubeconfig"; }
  [[nodiscard]] std::shared_ptr<kube::Client> MakeClient() const;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url() const;
  [[nodiscard]] const std::string& ca_pem() const { return ca_pem_; }
  [[nodiscard]] const std::string& admin_token() const { return admin_token_; }
  // A second token of the administrator, and a user whom nothing is allowed.
  [[nodiscard]] const std::string& other_admin_token() const { return other_admin_token_; }
  [[nodiscard]] const std::string& stranger_token() const { return stranger_token_; }
  // A client certificate of system:masters.
  [[nodiscard]] const std::string& client_certificate_pem() const {
    return client_certificate_pem_;
  }
  [[nodiscard]] const std::string& client_key_pem() const { return client_key_pem_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  // The API server alone; etcd keeps its data.
  void StopServer();
  base::Status StartServer();
  // Drops etcd's history: older resource versions are gone for a server started later.
  base::Status CompactEtcd();

 private:
  ApiServer() = default;
  base::Status Prepare();
  // Nobody else is given it, also while no server listens on it.
  base::Result<int> ReservePort();
  base::Status StartEtcd();
  base::Status WaitUntilReady();
  base::Result<std::string> AskEtcd(const std::string& path, const std::string& body) const;

  ApiServerOptions options_;
  std::filesystem::path folder_;
  base::FileDescriptor lock_;  // while the folder is in use
  std::vector<base::FileDescriptor> reserved_ports_;
  int port_ = 0;
  int etcd_port_ = 0;
  std::string ca_pem_;
  std::string admin_token_;
  std::string other_admin_token_;
  std::string stranger_token_;
  std::string client_certificate_pem_;
  std::string client_key_pem_;
  std::unique_ptr<io::HttpClient> http_;
  std::unique_ptr<ChildProcess> etcd_;
  std::unique_ptr<ChildProcess> server_;
};

}  // namespace pitcrew::testing
