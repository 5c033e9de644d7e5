#include "apiserver/api_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <sys/file.h>

#include <array>
#include <cstdlib>

#include "base/file.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "loopback/certificate.h"
#include "loopback/loopback.h"

namespace pitcrew::testing {
namespace {

using codec::Json;

constexpr std::chrono::seconds kStartTimeout{90};
constexpr std::chrono::milliseconds kAskAgain{50};

std::string RandomToken() {
  std::array<unsigned char, 16> bytes{};
  RAND_bytes(bytes.data(), static_cast<int>(bytes.size()));
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

constexpr std::string_view kFolderPrefix = "pitcrew-apiserver-";

// A lock that ends with the process, however it ends; invalid when another process holds it.
base::FileDescriptor TakeLock(const std::filesystem::path& file, int flags) {
  base::FileDescriptor lock(::open(file.c_str(), O_RDWR | O_CLOEXEC | flags, 0600));
  if (lock.valid() && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) lock.Close();
  return lock;
}

// Folders of test processes that were killed before they could clean up.
void RemoveAbandonedFolders() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::temp_directory_path(ignored), ignored)) {
    if (!entry.path().filename().string().starts_with(kFolderPrefix)) continue;
    if (TakeLock(entry.path() / "lock", 0).valid()) {
      std::filesystem::remove_all(entry.path(), ignored);
    }
  }
}

base::Error Died(ChildProcess& process, std::string_view name) {
  return base::Unavailable("ServerDied",
                           fmt::format("{} ended while it started:\n{}", name, process.LogTail()));
}

}  // namespace

base::Result<std::unique_ptr<ApiServer>> ApiServer::Start(ApiServerOptions options) {
  std::unique_ptr<ApiServer> server(new ApiServer());
  server->options_ = std::move(options);
  TRY(server->Prepare());
  TRY(server->StartEtcd());
  TRY(server->StartServer());
  return server;
}

base::Result<int> ApiServer::ReservePort() {
  TRY_ASSIGN(LoopbackSocket reserved, ReserveOnLoopback());
  reserved_ports_.push_back(std::move(reserved.socket));
  return reserved.port;
}

ApiServer& ApiServer::Shared() {
  static const std::unique_ptr<ApiServer> server = [] {
    auto started = Start();
    if (!started) {
      fmt::print(stderr, "the API server for the tests did not start: {}\n",
                 started.error().ToString());
      std::exit(1);
    }
    return *std::move(started);
  }();
  return *server;
}

ApiServer::~ApiServer() {
  server_.reset();
  etcd_.reset();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

base::Status ApiServer::Prepare() {
  TRY_ASSIGN(http_, io::HttpClient::Create());
  RemoveAbandonedFolders();
  std::string pattern =
      std::filesystem::temp_directory_path() / (std::string(kFolderPrefix) + "XXXXXX");
  if (::mkdtemp(pattern.data()) == nullptr) {
    return base::Fail(base::FromErrno(errno, "make a temporary folder"));
  }
  folder_ = pattern;
  // Locked under another name first, so that nobody finds the lock free.
  lock_ = TakeLock(folder_ / "lock.new", O_CREAT);
  std::error_code problem;
  std::filesystem::rename(folder_ / "lock.new", folder_ / "lock", problem);
  if (!lock_.valid() || problem) {
    return base::Fail(base::Internal("LockFailed", "lock " + folder_.string()));
  }
  TRY_ASSIGN(const KeyPair authority,
             MakeCertificate({.common_name = "test authority", .authority = true}));
  TRY_ASSIGN(const KeyPair serving, MakeCertificate({.common_name = "kube-apiserver",
                                                     .dns_names = {"localhost", "apiserver.test"},
                                                     .addresses = {"127.0.0.1"}},
                                                    &authority));
  TRY_ASSIGN(const KeyPair client,
             MakeCertificate({.common_name = "certified-admin", .organization = "system:masters"},
                             &authority));
  TRY_ASSIGN(const KeyPair accounts, MakeCertificate({.common_name = "service accounts"}));
  ca_pem_ = authority.certificate_pem;
  client_certificate_pem_ = client.certificate_pem;
  client_key_pem_ = client.key_pem;
  admin_token_ = RandomToken();
  other_admin_token_ = RandomToken();
  stranger_token_ = RandomToken();
  TRY(base::WriteFileAtomically(folder_ / "ca.crt", ca_pem_));
  TRY(base::WriteFileAtomically(folder_ / "serving.crt", serving.certificate_pem));
  TRY(base::WriteFileAtomically(folder_ / "serving.key", serving.key_pem, 0600));
  TRY(base::WriteFileAtomically(folder_ / "accounts.crt", accounts.certificate_pem));
  TRY(base::WriteFileAtomically(folder_ / "accounts.key", accounts.key_pem, 0600));
  TRY(base::WriteFileAtomically(
      folder_ / "tokens.csv",
      fmt::format("{},admin,1,system:masters\n{},admin,1,system:masters\n{},stranger,2\n",
                  admin_token_, other_admin_token_, stranger_token_),
      0600));
  TRY_ASSIGN(port_, ReservePort());
  const Json kubeconfig{
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", "test"},
      {"contexts",
       Json::array({{{"name", "test"}, {"context", {{"cluster", "test"}, {"user", "admin"}}}}})},
      {"clusters",
       Json::array({{{"name", "test"},
                     {"cluster",
                      {{"server", url()},
                       {"certificate-authority-data", codec::EncodeBase64(ca_pem_)}}}}})},
      {"users", Json::array({{{"name", "admin"}, {"user", {{"token", admin_token_}}}}})}};
  return base::WriteFileAtomically(this->kubeconfig(), codec::ToYamlText(kubeconfig), 0600);
}

std::string ApiServer::url() const { return fmt::format("https://127.0.0.1:{}", port_); }

kube::Config ApiServer::config(const std::string& server) const {
  kube::Config config;
  config.server = server.empty() ? url() : server;
  config.ca_pem = ca_pem_;
  config.origin = "test API server";
  config.credentials = kube::StaticCredentials({.bearer_token = admin_token_,
                                                .user_name = {},
                                                .password = {},
                                                .client_certificate_pem = {},
                                                .client_key_pem = {}});
  return config;
}

std::shared_ptr<kube::Client> ApiServer::MakeClient() const {
  auto client = kube::Client::Create(config());
  if (!client) {
    fmt::print(stderr, "no client: {}\n", client.error().ToString());
    std::exit(1);
  }
  return *std::move(client);
}

base::Status ApiServer::StartEtcd() {
  TRY_ASSIGN(const auto program, FindProgram("etcd"));
  TRY_ASSIGN(etcd_port_, ReservePort());
  TRY_ASSIGN(const int peer_port, ReservePort());
  const std::string clients = fmt::format("http://127.0.0.1:{}", etcd_port_);
  const std::string peers = fmt::format("http://127.0.0.1:{}", peer_port);
  TRY_ASSIGN(etcd_, ChildProcess::Start(
                        program,
                        {"--name=test", "--data-dir=" + (folder_ / "etcd").string(),
                         "--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
                         "--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers,
                         "--initial-cluster=test=" + peers, "--unsafe-no-fsync", "--log-level=warn",
                         "--socket-reuse-port=true"},
                        folder_ / "etcd.log"));
  const auto deadline = std::chrono::steady_clock::now() + kStartTimeout;
  for (;;) {
    if (!etcd_->running()) return base::Fail(Died(*etcd_, "etcd"));
    io::HttpRequest request;
    request.url = clients + "/health";
    const auto answer = http_->Send(std::move(request), {});
    if (answer && answer->status == 200) return {};
    if (std::chrono::steady_clock::now() > deadline) {
      return base::Fail(
          base::Unavailable("NotReady", "etcd does not get healthy:\n" + etcd_->LogTail()));
    }
    static_cast<void>(io::StopToken().WaitFor(kAskAgain));
  }
}

base::Status ApiServer::StartServer() {
  TRY_ASSIGN(const auto program, FindProgram("kube-apiserver"));
  const auto file = [&](const char* name) { return (folder_ / name).string(); };
  std::vector<std::string> arguments{fmt::format("--etcd-servers=http://127.0.0.1:{}", etcd_port_),
                                     "--etcd-compaction-interval=0",
                                     "--bind-address=127.0.0.1",
                                     "--advertise-address=127.0.0.1",
                                     fmt::format("--secure-port={}", port_),
                                     "--permit-port-sharing=true",
                                     "--tls-cert-file=" + file("serving.crt"),
                                     "--tls-private-key-file=" + file("serving.key"),
                                     "--client-ca-file=" + file("ca.crt"),
                                     "--token-auth-file=" + file("tokens.csv"),
                                     "--authorization-mode=RBAC",
                                     "--service-account-issuer=https://pitcrew.test",
                                     "--service-account-key-file=" + file("accounts.crt"),
                                     "--service-account-signing-key-file=" + file("accounts.key"),
                                     "--service-cluster-ip-range=10.96.0.0/16",
                                     "--disable-admission-plugins=ServiceAccount",
                                     "--endpoint-reconciler-type=none",
                                     "--allow-privileged=true",
                                     "--shutdown-delay-duration=0s",
                                     "--cert-dir=" + file("certificates")};
  arguments.insert(arguments.end(), options_.extra_arguments.begin(),
                   options_.extra_arguments.end());
  TRY_ASSIGN(server_, ChildProcess::Start(program, arguments, folder_ / "apiserver.log"));
  return WaitUntilReady();
}

base::Status ApiServer::WaitUntilReady() {
  const auto tls =
      std::make_shared<const io::TlsSettings>(io::TlsSettings{.ca_pem = ca_pem_,
                                                              .insecure_skip_verify = false,
                                                              .client_certificate_pem = {},
                                                              .client_key_pem = {}});
  const auto deadline = std::chrono::steady_clock::now() + kStartTimeout;
  for (;;) {
    if (!server_->running()) return base::Fail(Died(*server_, "kube-apiserver"));
    io::HttpRequest request;
    request.url = url() + "/readyz";
    request.headers = {{"Authorization", "Bearer " + admin_token_}};
    request.tls = tls;
    const auto answer = http_->Send(std::move(request), {});
    if (answer && answer->status == 200) return {};
    if (std::chrono::steady_clock::now() > deadline) {
      return base::Fail(base::Unavailable(
          "NotReady", "kube-apiserver does not get ready:\n" + server_->LogTail()));
    }
    static_cast<void>(io::StopToken().WaitFor(kAskAgain));
  }
}

void ApiServer::StopServer() {
  if (server_) server_->Kill();
}

base::Result<std::string> ApiServer::AskEtcd(const std::string& path,
                                             const std::string& body) const {
  io::HttpRequest request;
  request.method = "POST";
  request.url = fmt::format("http://127.0.0.1:{}{}", etcd_port_, path);
  request.body = body;
  TRY_ASSIGN(auto answer, http_->Send(std::move(request), {}));
  if (answer.status != 200) {
    return base::Fail(base::Internal("EtcdRefused", answer.body));
  }
  return std::move(answer.body);
}

base::Status ApiServer::CompactEtcd() {
  // Any range request tells the current revision; a key is base64.
  TRY_ASSIGN(const std::string range, AskEtcd("/v3/kv/range", R"({"key":"eA=="})"));
  TRY_ASSIGN(const Json answer, codec::ParseJson(range, "etcd"));
  const std::string revision = codec::FindString(answer, {"header", "revision"});
  TRY(AskEtcd("/v3/kv/compaction",
              codec::ToJsonText({{"revision", revision}, {"physical", true}})));
  return {};
}

}  // namespace pitcrew::testing
