// The file that turns on HTTPS and basic authentication, as Prometheus' exporters read it
// (metrics-exporter.md 4.2).
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/result.h"
#include "io/http_server.h"

namespace pitcrew::node::metrics_exporter {

struct WebConfig {
  std::optional<io::TlsIdentity> tls;                     // nullopt: plain HTTP
  std::map<std::string, std::string, std::less<>> users;  // bcrypt hashes
  io::HttpHeaders headers;
};

// Paths in the file are relative to its folder. kInvalid with line and column for what is wrong.
base::Result<WebConfig> LoadWebConfig(const std::filesystem::path& file);

// Whether a password fits to a bcrypt hash.
bool FitsHash(const std::string& password, const std::string& hash);

// The file as it is at each request and connection. Thread-safe.
class WebRules {
 public:
  explicit WebRules(std::filesystem::path file) : file_(std::move(file)) {}
  // What of a server's options the file decides.
  base::Result<io::HttpServerOptions> ServerOptions();

 private:
  bool Allows(const std::optional<io::HttpCredentials>& credentials);

  const std::filesystem::path file_;
  std::mutex mutex_;
  // Digests of credentials that fitted: a bcrypt hash takes longer than a scrape. Guarded by
  // mutex_.
  std::set<std::string> known_;
};

}  // namespace pitcrew::node::metrics_exporter
