// The file of HTTPS and basic authentication: metrics-exporter.md section 4.2.
#include "node/metrics_exporter/web_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using Clients = io::TlsIdentity::Clients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Of "secret", at bcrypt's lowest cost.
constexpr const char* kHash = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

class WebConfigTest : public ::testing::Test {
 protected:
  base::Result<WebConfig> Load(std::string_view text) const {
    return LoadWebConfig(folder_.Write("web.yaml", text));
  }
  [[nodiscard]] std::string Refusal(std::string_view text) const {
    const auto config = Load(text);
    if (config) return "(taken)";
    EXPECT_EQ(config.error().code, base::Code::kInvalid);
    EXPECT_THAT(config.error().message, HasSubstr("web.yaml:")) << "with its line";
    return config.error().message;
  }
  // With more members of a tls_server_config that is otherwise whole.
  [[nodiscard]] static std::string Tls(const std::string& more) {
    return "tls_server_config: {cert: c, key: k" + more + "}";
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(WebConfigTest, AnEmptyFileTurnsNothingOn) {
  for (const char* text : {"", "# nothing\n", "{}"}) {
    const auto config = Load(text);
    ASSERT_TRUE(config) << config.error().ToString();
    EXPECT_FALSE(config->tls);
    EXPECT_THAT(config->users, IsEmpty());
    EXPECT_THAT(config->headers, IsEmpty());
  }
  EXPECT_FALSE(LoadWebConfig(folder_.path() / "missing.yaml"));
}

TEST_F(WebConfigTest, CertificatesStandThereOrInFilesBesideIt) {
  folder_.Write("tls/cert.pem", "certificate\n");
  folder_.Write("key.pem", "key\n");
  const auto config = Load(
      "tls_server_config: {cert_file: tls/cert.pem, key_file: key.pem, client_ca: ca, "
      "client_auth_type: RequireAndVerifyClientCert, client_allowed_sans: [a, b], "
      "min_version: TLS13, max_version: TLS13, prefer_server_cipher_suites: false, "
      "curve_preferences: [X25519, CurveP256], cipher_suites: "
      "[TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "
      "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA]}");
  ASSERT_TRUE(config) << config.error().ToString();
  ASSERT_TRUE(config->tls);
  EXPECT_EQ(config->tls->certificate, "certificate\n");
  EXPECT_EQ(config->tls->key, "key\n");
  EXPECT_EQ(config->tls->client_authorities, "ca");
  EXPECT_EQ(config->tls->clients, Clients::kVerified);
  EXPECT_THAT(config->tls->client_names, ElementsAre("a", "b"));
  EXPECT_EQ(config->tls->min_version, 0x0304);
  EXPECT_EQ(config->tls->max_version, 0x0304);
  EXPECT_FALSE(config->tls->prefer_own_order);
  EXPECT_EQ(config->tls->groups, "X25519:P-256");
  EXPECT_EQ(config->tls->cipher_list, "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-SHA")
      << "those of TLS 1.3 are not to be chosen";
  const auto plain = Load(Tls(""));
  ASSERT_TRUE(plain) << plain.error().ToString();
  EXPECT_EQ(plain->tls->clients, Clients::kAnybody);
  EXPECT_EQ(plain->tls->min_version, 0x0303);
  EXPECT_EQ(plain->tls->max_version, 0x0304);
  EXPECT_TRUE(plain->tls->prefer_own_order);
}

TEST_F(WebConfigTest, WhichClientsAreTaken) {
  for (const auto& [word, clients] :
       {std::pair("''", Clients::kAnybody), std::pair("NoClientCert", Clients::kAnybody),
        std::pair("RequestClientCert", Clients::kAsked),
        std::pair("RequireClientCert", Clients::kAnyCertificate),
        std::pair("RequireAnyClientCert", Clients::kAnyCertificate),
        std::pair("VerifyClientCertIfGiven", Clients::kVerifiedIfGiven)}) {
    const auto config = Load(Tls(", client_auth_type: " + std::string(word)));
    ASSERT_TRUE(config) << config.error().ToString();
    EXPECT_EQ(config->tls->clients, clients) << word;
  }
  EXPECT_THAT(Refusal(Tls(", client_ca: ca")), HasSubstr("no effect without a client_auth_type"));
  EXPECT_THAT(Refusal(Tls(", client_auth_type: Sometimes")), HasSubstr("Sometimes"));
}

TEST_F(WebConfigTest, WhatCannotBeIsRefusedWithItsPlace) {
  EXPECT_THAT(Refusal("tls_server_config: {key: k}"), HasSubstr("cert or cert_file"));
  EXPECT_THAT(Refusal("tls_server_config: {cert: c}"), HasSubstr("key or key_file"));
  EXPECT_THAT(Refusal(Tls(", cert_file: x")), HasSubstr("cannot be set together with cert_file"));
  EXPECT_THAT(Refusal(Tls(", min_version: TLS14")), HasSubstr("TLS14"));
  EXPECT_THAT(Refusal(Tls(", cipher_suites: [ROT13]")), HasSubstr("ROT13"));
  EXPECT_THAT(Refusal(Tls(", curve_preferences: [P-256]")), HasSubstr("P-256"));
  EXPECT_THAT(Refusal(Tls(", colour: red")), HasSubstr("colour"));
  EXPECT_THAT(Refusal("rate_limit: {}"), HasSubstr("rate_limit"));
  EXPECT_THAT(Refusal("users: {}"), HasSubstr("users"));
  EXPECT_THAT(Refusal("basic_auth_users: [a]"), HasSubstr("mapping of users to hashes"));
  EXPECT_THAT(Refusal("basic_auth_users: {a: 1}"), HasSubstr("no hash for a"));
  EXPECT_THAT(Refusal("http_server_config: {headers: [a]}"), HasSubstr("must be a mapping"));
  EXPECT_THAT(Refusal("http_server_config: {headers: {Server: x}}"), HasSubstr("Server"));
  EXPECT_THAT(Refusal("http_server_config: {headers: {X-Frame-Options: 1}}"),
              HasSubstr("X-Frame-Options"));
  EXPECT_THAT(Refusal("http_server_config: {http3: true}"), HasSubstr("http3"));
}

TEST_F(WebConfigTest, UsersAndHeaders) {
  const auto config =
      Load("basic_auth_users: {scraper: \"" + std::string(kHash) +
           "\"}\nhttp_server_config: {http2: false, headers: {X-Frame-Options: deny}}\n");
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_THAT(config->users, ElementsAre(Pair("scraper", kHash)));
  EXPECT_THAT(config->headers, ElementsAre(Pair("X-Frame-Options", "deny")));
}

TEST_F(WebConfigTest, OnlyBcryptFits) {
  EXPECT_TRUE(FitsHash("secret", kHash));
  EXPECT_FALSE(FitsHash("secret2", kHash));
  EXPECT_FALSE(FitsHash("", kHash));
  EXPECT_FALSE(FitsHash("secret", "secret"));
  EXPECT_FALSE(FitsHash("secret", "$2b$"));
  EXPECT_FALSE(FitsHash("x", "$1$salt$9GHNWvCB1UrDZjPi7uags0")) << "a hash of another kind";
}

// The file counts as it is at each request.
TEST_F(WebConfigTest, RequestsAreTakenByTheFileOfNow) {
  const auto file = folder_.Write("web.yaml", "");
  WebRules rules(file);
  const auto options = rules.ServerOptions();
  ASSERT_TRUE(options) << options.error().ToString();
  EXPECT_FALSE(options->tls) << "it is a plain server for ever";
  EXPECT_TRUE(options->allow(std::nullopt));
  folder_.Write("web.yaml", "basic_auth_users: {scraper: \"" + std::string(kHash) + "\"}");
  const auto allows = [&](const char* user, const char* password) {
    return options->allow(io::HttpCredentials{user, password});
  };
  EXPECT_FALSE(options->allow(std::nullopt));
  for (int round = 0; round < 2; ++round) {  // remembered, the second time
    EXPECT_TRUE(allows("scraper", "secret"));
    EXPECT_FALSE(allows("scraper", "wrong"));
    EXPECT_FALSE(allows("other", "secret"));
  }
  folder_.Write("web.yaml", "basic_auth_users: {");
  EXPECT_FALSE(allows("scraper", "secret")) << "nobody knows who may";
  folder_.Write("web.yaml", "basic_auth_users: {other: \"" + std::string(kHash) + "\"}");
  EXPECT_FALSE(allows("scraper", "secret"));
}

TEST_F(WebConfigTest, CertificatesAreReadAnewForEachConnection) {
  const auto file = folder_.Write("web.yaml", Tls(""));
  WebRules rules(file);
  const auto options = rules.ServerOptions();
  ASSERT_TRUE(options && options->tls);
  EXPECT_EQ(options->tls()->certificate, "c");
  folder_.Write("web.yaml", "tls_server_config: {cert: newer, key: k}");
  EXPECT_EQ(options->tls()->certificate, "newer");
  folder_.Write("web.yaml", "");
  EXPECT_EQ(options->tls().error().reason, "NoTlsConfiguration");
  WebRules none("");
  EXPECT_FALSE(none.ServerOptions()->allow);
}

}  // namespace
}  // namespace pitcrew::node::metrics_exporter
