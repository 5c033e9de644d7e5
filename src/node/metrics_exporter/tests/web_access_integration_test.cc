// Who may read the exporter's page: by password, over TLS, by certificate.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "io/http_client.h"
#include "loopback/certificate.h"
#include "support_exporter.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using ::testing::HasSubstr;
using WebAccessTest = ExporterTest;

TEST_F(WebAccessTest, BasicAuthenticationLetsOnlyKnownUsersIn) {
  RecordProperty("holds", "metrics-exporter.md #28");
  options_.web_config = folder_.path() / "web.yaml";
  // The hash of "secret", cost 4.
  ASSERT_TRUE(
      base::WriteFileAtomically(options_.web_config,
                                "basic_auth_users:\n  prometheus: "
                                "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n"));
  Start("gpus: [{profile: T4}]");
  EXPECT_EQ(Get("/metrics").status, 401);
  EXPECT_EQ(Get("/health").status, 401);
  const auto as = [&](const std::string& credentials) {
    return Get("/metrics", {{"authorization", "Basic " + credentials}}).status;
  };
  EXPECT_EQ(as("cHJvbWV0aGV1czpzZWNyZXQ="), 200) << "prometheus:secret";
  EXPECT_EQ(as("cHJvbWV0aGV1czp3cm9uZw=="), 401) << "prometheus:wrong";
  EXPECT_EQ(as("cm9vdDpzZWNyZXQ="), 401) << "root:secret";
  EXPECT_EQ(as("%%%"), 401);
  // The file is read for each request.
  ASSERT_TRUE(base::WriteFileAtomically(options_.web_config, "basic_auth_users: {}\n"));
  EXPECT_EQ(Get("/metrics").status, 200);
}

TEST_F(WebAccessTest, WithACertificateItSpeaksHttpsOnly) {
  RecordProperty("holds", "metrics-exporter.md #28");
  const auto authority =
      *::pitcrew::testing::MakeCertificate({.common_name = "authority", .authority = true});
  const auto server = *::pitcrew::testing::MakeCertificate(
      {.common_name = "exporter", .addresses = {"127.0.0.1"}}, &authority);
  ASSERT_TRUE(base::WriteFileAtomically(folder_.path() / "tls.crt", server.certificate_pem));
  ASSERT_TRUE(base::WriteFileAtomically(folder_.path() / "tls.key", server.key_pem));
  options_.web_config = folder_.path() / "web.yaml";
  ASSERT_TRUE(base::WriteFileAtomically(
      options_.web_config, "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n"));
  Start("gpus: [{profile: T4}]");
  io::HttpRequest request;
  request.url = fmt::format("https://127.0.0.1:{}/metrics", exporter_->port());
  auto tls = std::make_shared<io::TlsSettings>();
  tls->ca_pem = authority.certificate_pem;
  request.tls = tls;
  const auto answer = io::HttpClient::Create().value()->Send(request, {});
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_THAT(answer->body, HasSubstr("DCGM_FI_DEV_GPU_TEMP{"));
  request.url = fmt::format("http://127.0.0.1:{}/metrics", exporter_->port());
  const auto plain = io::HttpClient::Create().value()->Send(request, {});
  EXPECT_TRUE(!plain || plain->status != 200);
}

TEST_F(WebAccessTest, OnlyClientsOfItsAuthorityAreServed) {
  const auto authority =
      *::pitcrew::testing::MakeCertificate({.common_name = "authority", .authority = true});
  const auto server = *::pitcrew::testing::MakeCertificate(
      {.common_name = "exporter", .addresses = {"127.0.0.1"}}, &authority);
  const auto client = *::pitcrew::testing::MakeCertificate({.common_name = "scraper"}, &authority);
  folder_.Write("tls.crt", server.certificate_pem);
  folder_.Write("tls.key", server.key_pem);
  folder_.Write("clients.crt", authority.certificate_pem);
  options_.web_config = folder_.Write(
      "web.yaml",
      "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n"
      "  client_ca_file: clients.crt\n  client_auth_type: RequireAndVerifyClientCert\n"
      "  curve_preferences: [CurveP256]\n");
  Start("gpus: [{profile: T4}]");
  const auto is_served = [&](const std::string& certificate, const std::string& key) {
    auto tls = std::make_shared<io::TlsSettings>();
    tls->ca_pem = authority.certificate_pem;
    tls->client_certificate_pem = certificate;
    tls->client_key_pem = key;
    io::HttpRequest request;
    request.url = fmt::format("https://127.0.0.1:{}/metrics", exporter_->port());
    request.tls = tls;
    const auto answer = io::HttpClient::Create().value()->Send(request, {});
    return answer && answer->status == 200;
  };
  EXPECT_TRUE(is_served(client.certificate_pem, client.key_pem));
  EXPECT_FALSE(is_served("", ""));
  const auto stranger = *::pitcrew::testing::MakeCertificate({.common_name = "stranger"});
  EXPECT_FALSE(is_served(stranger.certificate_pem, stranger.key_pem));
  // Whom to trust is not known any more: nobody.
  folder_.Write("clients.crt", "no certificate\n");
  EXPECT_FALSE(is_served(client.certificate_pem, client.key_pem));
}

TEST(WebConfig, MistakesHaveTheirPlace) {
  const test_support::TemporaryFolder folder;
  const auto wrong = [&](std::string_view text) {
    const auto config = LoadWebConfig(folder.Write("web.yaml", text));
    return config ? std::string() : config.error().message;
  };
  EXPECT_THAT(wrong("tls_server_config:\n  certfile: x\n"), HasSubstr("web.yaml:2:"));
  EXPECT_THAT(wrong("tls_server_config: {cert: a, cert_file: b}\n"), HasSubstr("cert_file"));
  EXPECT_THAT(wrong("tls_server_config: {cert: a}\n"), HasSubstr("key"));
  EXPECT_THAT(wrong("tls_server_config: {cert: a, key: b, client_ca: c}\n"),
              HasSubstr("client_auth_type"));
  EXPECT_THAT(wrong("tls_server_config: {cert: a, key: b, min_version: TLS9}\n"),
              HasSubstr("TLS9"));
  EXPECT_THAT(wrong("tls_server_config: {cert: a, key: b, cipher_suites: [RC4]}\n"),
              HasSubstr("RC4"));
  EXPECT_THAT(wrong("http_server_config: {headers: {Server: x}}\n"), HasSubstr("Server"));
  EXPECT_THAT(wrong("rate_limit: {interval: 1s}\n"), HasSubstr("rate_limit"));
  EXPECT_EQ(wrong(""), "");
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter
