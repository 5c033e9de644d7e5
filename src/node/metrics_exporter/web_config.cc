#include "node/metrics_exporter/web_config.h"

#include <crypt.h>
#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "codec/config_reader.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using codec::ConfigReader;
using Clients = io::TlsIdentity::Clients;

struct Named {
  std::string_view name;
  std::string_view openssl;
};
// Go's names of the suites that it offers; those of TLS 1.3 are not to be chosen, as in Go.
constexpr Named kSuites[] = {
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
    {"TLS_AES_128_GCM_SHA256", ""},
    {"TLS_AES_256_GCM_SHA384", ""},
    {"TLS_CHACHA20_POLY1305_SHA256", ""}};
constexpr Named kCurves[] = {
    {"CurveP256", "P-256"}, {"CurveP384", "P-384"}, {"CurveP521", "P-521"}, {"X25519", "X25519"}};
constexpr std::pair<std::string_view, int> kVersions[] = {
    {"TLS10", 0x0301}, {"TLS11", 0x0302}, {"TLS12", 0x0303}, {"TLS13", 0x0304}};
constexpr std::pair<std::string_view, Clients> kClients[] = {
    {"", Clients::kAnybody},
    {"NoClientCert", Clients::kAnybody},
    {"RequestClientCert", Clients::kAsked},
    {"RequireClientCert", Clients::kAnyCertificate},
    {"RequireAnyClientCert", Clients::kAnyCertificate},
    {"VerifyClientCertIfGiven", Clients::kVerifiedIfGiven},
    {"RequireAndVerifyClientCert", Clients::kVerified}};

class Loader {
 public:
  explicit Loader(std::filesystem::path folder) : folder_(std::move(folder)) {}

  base::Result<WebConfig> Read(const ConfigReader& root) {
    TRY(root.RefuseOthers(
        {"tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"}));
    if (root.Find("rate_limit") != nullptr) {
      return root.Wrong("rate_limit", "is not there: requests are not limited by this exporter");
    }
    WebConfig config;
    if (root.Find("tls_server_config") != nullptr) {
      TRY_ASSIGN(const auto tls, root.RequiredObject("tls_server_config"));
      TRY(ReadTls(tls, config));
    }
    TRY_ASSIGN(const auto http, root.Object("http_server_config"));
    TRY(ReadHttp(http, config));
    if (const auto* users = root.Find("basic_auth_users")) {
      if (!users->is_object())
        return root.Wrong("basic_auth_users", "must be a mapping of users to hashes");
      for (const auto& [user, hash] : users->items()) {
        if (!hash.is_string()) {
          return root.Wrong("basic_auth_users", fmt::format("has no hash for {}", user));
        }
        config.users.emplace(user, hash.get<std::string>());
      }
    }
    return config;
  }

 private:
  // A text, or the content of the file that another member names.
  base::Result<std::string> Content(const ConfigReader& reader, std::string_view name) const {
    std::string text;
    std::string file;
    const auto file_name = fmt::format("{}_file", name);
    TRY(reader.Read(name, text));
    TRY(reader.Read(file_name, file));
    if (!text.empty() && !file.empty()) {
      return reader.Wrong(name, fmt::format("cannot be set together with {}", file_name));
    }
    if (file.empty()) return text;
    return base::ReadFile(folder_ / file);
  }

  template <class Table, class Value>
  static base::Status Choose(const ConfigReader& reader, std::string_view name, const Table& table,
                             Value& target) {
    std::string word;
    TRY(reader.Read(name, word));
    if (reader.Find(name) == nullptr) return {};
    const auto found =
        std::ranges::find(table, word, [](const auto& entry) { return entry.first; });
    if (found == std::end(table))
      return reader.Wrong(name, fmt::format("is none of the known ones: {}", word));
    target = found->second;
    return {};
  }

  template <class Table>
  static base::Status Translate(const ConfigReader& reader, std::string_view name,
                                const Table& table, std::string& target) {
    std::vector<std::string> words;
    TRY(reader.Read(name, words));
    std::vector<std::string> translated;
    for (const auto& word : words) {
      const auto found = std::ranges::find(table, word, &Named::name);
      if (found == std::end(table)) return reader.Wrong(name, fmt::format("knows no {}", word));
      if (!found->openssl.empty()) translated.emplace_back(found->openssl);
    }
    target = base::Join(translated, ":");
    return {};
  }

  base::Status ReadTls(const ConfigReader& reader, WebConfig& config) {
    TRY(reader.RefuseOthers({"cert", "cert_file", "key", "key_file", "client_ca", "client_ca_file",
                             "client_auth_type", "client_allowed_sans", "min_version",
                             "max_version", "cipher_suites", "prefer_server_cipher_suites",
                             "curve_preferences"}));
    io::TlsIdentity tls;
    TRY_ASSIGN(tls.certificate, Content(reader, "cert"));
    TRY_ASSIGN(tls.key, Content(reader, "key"));
    TRY_ASSIGN(tls.client_authorities, Content(reader, "client_ca"));
    TRY(Choose(reader, "client_auth_type", kClients, tls.clients));
    TRY(reader.Read("client_allowed_sans", tls.client_names));
    TRY(Choose(reader, "min_version", kVersions, tls.min_version));
    TRY(Choose(reader, "max_version", kVersions, tls.max_version));
    TRY(Translate(reader, "cipher_suites", kSuites, tls.cipher_list));
    TRY(Translate(reader, "curve_preferences", kCurves, tls.groups));
    TRY(reader.Read("prefer_server_cipher_suites", tls.prefer_own_order));
    if (tls.certificate.empty()) return reader.Wrong("cert", "is missing: cert or cert_file");
    if (tls.key.empty()) return reader.Wrong("key", "is missing: key or key_file");
    if (!tls.client_authorities.empty() && tls.clients == Clients::kAnybody) {
      return reader.Wrong("client_ca", "has no effect without a client_auth_type");
    }
    config.tls = std::move(tls);
    return {};
  }

  static base::Status ReadHttp(const ConfigReader& reader, WebConfig& config) {
    TRY(reader.RefuseOthers({"http2", "headers"}));
    bool http2 = true;  // HTTP/1.1 is what is spoken
    TRY(reader.Read("http2", http2));
    const auto* headers = reader.Find("headers");
    if (headers == nullptr) return {};
    if (!headers->is_object()) return reader.Wrong("headers", "must be a mapping");
    constexpr std::array<std::string_view, 5> kKnown = {
        "Content-Security-Policy", "X-Frame-Options", "X-Content-Type-Options", "X-XSS-Protection",
        "Strict-Transport-Security"};
    for (const auto& [name, value] : headers->items()) {
      if (std::ranges::find(kKnown, name) == kKnown.end() || !value.is_string()) {
        return reader.Wrong("headers", fmt::format("cannot set {}", name));
      }
      config.headers.emplace_back(name, value.get<std::string>());
    }
    return {};
  }

  const std::filesystem::path folder_;
};

}  // namespace

base::Result<WebConfig> LoadWebConfig(const std::filesystem::path& file) {
  TRY_ASSIGN(const auto document, codec::ConfigDocument::Load(file));
  if (document.empty()) return WebConfig();
  TRY_ASSIGN(const auto root, document.Root(codec::Names::kExact));
  return Loader(file.parent_path()).Read(root);
}

bool FitsHash(const std::string& password, const std::string& hash) {
  // Only bcrypt, as the exporters of Prometheus.
  if (!hash.starts_with("$2")) return false;
  const auto data = std::make_unique<crypt_data>();
  const char* made = ::crypt_r(password.c_str(), hash.c_str(), data.get());
  return made != nullptr && hash == made;
}

bool WebRules::Allows(const std::optional<io::HttpCredentials>& credentials) {
  const auto config = LoadWebConfig(file_);
  if (!config) {
    base::LogError("a request is refused: the web configuration cannot be read", config.error());
    return false;
  }
  if (config->users.empty()) return true;
  if (!credentials) return false;
  const auto user = config->users.find(credentials->user);
  // A user that is not known takes as long as a wrong password.
  static const std::string kNobody =
      "$2y$10$abcdefghijklmnopqrstuuE0jO1Zf8Xk0mJ8a2m0Y3n4b5c6d7e8f9";
  const auto& hash = user == config->users.end() ? kNobody : user->second;
  const std::string text = credentials->user + '\n' + hash + '\n' + credentials->password;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string key(digest.begin(), digest.end());
  {
    const std::lock_guard lock(mutex_);
    if (known_.contains(key)) return true;
  }
  const bool fits = FitsHash(credentials->password, hash) && user != config->users.end();
  const std::lock_guard lock(mutex_);
  constexpr std::size_t kMost = 100;
  if (known_.size() > kMost) known_.clear();
  if (fits) known_.insert(std::move(key));
  return fits;
}

base::Result<io::HttpServerOptions> WebRules::ServerOptions() {
  io::HttpServerOptions options;
  if (file_.empty()) return options;
  TRY_ASSIGN(const auto config, LoadWebConfig(file_));
  options.headers = config.headers;
  options.allow = [this](const auto& credentials) { return Allows(credentials); };
  if (!config.tls) return options;
  options.tls = [this]() -> base::Result<io::TlsIdentity> {
    TRY_ASSIGN(auto now, LoadWebConfig(file_));
    if (now.tls) return *std::move(now.tls);
    return base::Fail(base::Invalid(
        "NoTlsConfiguration", fmt::format("{} has no tls_server_config any more", file_.string())));
  };
  return options;
}

}  // namespace pitcrew::node::metrics_exporter
