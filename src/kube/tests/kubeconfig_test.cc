#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/file.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/credentials.h"
#include "tests/support/without_pidfd.h"

namespace pitcrew::kube {
namespace {

using base::Code;

constexpr std::string_view kPem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

class KubeconfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "pitcrew-kubeconfig-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, std::string_view content, mode_t mode = 0600) {
    ASSERT_TRUE(base::WriteFileAtomically(folder_ / name, content, mode));
  }
  base::Result<Config> Parse(const std::string& text, std::string_view context = "") {
    return ParseKubeconfig(text, "kubeconfig", folder_, context);
  }
  // A whole file around one cluster and one user.
  base::Result<Config> ParseParts(const std::string& cluster, const std::string& user) {
    return Parse(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts:\n"
        "- {name: x, context: {cluster: c, user: u, namespace: ns}}\nclusters:\n"
        "- name: c\n  cluster: " +
        cluster + "\nusers:\n- name: u\n  user: " + user + "\n");
  }
  static std::string MessageOf(const base::Result<Config>& result) {
    return result ? "no error" : result.error().message;
  }

  std::filesystem::path folder_;
};

TEST_F(KubeconfigTest, ReadsAWholeFile) {
  Write("ca.pem", kPem);
  const auto config = ParseParts(
      "{server: \"https://h:6443/prefix/\", certificate-authority: ca.pem, tls-server-name: name, "
      "proxy-url: \"http://p:1\"}",
      "{token: secret, username: me, password: word}");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://h:6443/prefix");
  EXPECT_EQ(config->ca_pem, kPem);
  EXPECT_EQ(config->tls_server_name, "name");
  EXPECT_EQ(config->proxy_url, "http://p:1");
  EXPECT_EQ(config->default_namespace, "ns");
  EXPECT_FALSE(config->insecure_skip_tls_verify);
  EXPECT_EQ(config->origin, "kubeconfig kubeconfig, context x");
  const auto credentials = config->credentials->Current({});
  ASSERT_TRUE(credentials);
  EXPECT_EQ(credentials->bearer_token, "secret");
  EXPECT_EQ(credentials->user_name, "me");
}

TEST_F(KubeconfigTest, InlineDataWinsOverFiles) {
  const std::string data = codec::EncodeBase64(kPem);
  const auto config =
      ParseParts("{server: \"https://h\", certificate-authority-data: " + data +
                     ", certificate-authority: missing.pem}",
                 "{client-certificate-data: " + data + ", client-key-data: " + data + "}");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->ca_pem, kPem);
  EXPECT_EQ(config->credentials->Current({})->client_key_pem, kPem);
}

TEST_F(KubeconfigTest, AnotherContextCanBeAskedFor) {
  const std::string text =
      "contexts: [{name: x, context: {cluster: c}}, {name: w, context: {cluster: d}}]\n"
      "clusters: [{name: c, cluster: {server: \"http://c\"}}, "
      "{name: d, cluster: {server: \"http://d\"}}]\n"
      "current-context: x\n";
  EXPECT_EQ(Parse(text)->server, "http://c");
  EXPECT_EQ(Parse(text, "w")->server, "http://d");
  EXPECT_EQ(MessageOf(Parse(text, "z")), "kubeconfig:3:18: \"z\" is not among the contexts: x, w");
}

TEST_F(KubeconfigTest, ErrorsNameTheLineAndTheRemedy) {
  EXPECT_EQ(MessageOf(Parse("clusters: [\n")).substr(0, 13), "kubeconfig:2:");
  EXPECT_EQ(MessageOf(Parse("- a\n")),
            "kubeconfig:1:1: not a kubeconfig: a mapping with clusters, contexts and users is "
            "expected");
  EXPECT_EQ(MessageOf(Parse("kind: Pod\n")), "kubeconfig:1:7: kind is \"Pod\", not \"Config\"");
  EXPECT_EQ(MessageOf(Parse("contexts: [{name: a}, {name: b}]\n")),
            "kubeconfig:1:1: current-context is not set; set it to one of: a, b");
  EXPECT_EQ(MessageOf(Parse("contexts:\n- name: x\n  context: {cluster: nowhere}\n"
                            "current-context: x\n")),
            "kubeconfig:3:22: \"nowhere\" is not among the clusters: (the list is empty)");
  EXPECT_EQ(MessageOf(ParseParts("{server: \"h:6443\"}", "{}")),
            "kubeconfig:8:21: server is \"h:6443\"; write for example https://10.0.0.1:6443");
  EXPECT_EQ(MessageOf(ParseParts("{server: \"https://h\"}", "{token: 12}")),
            "kubeconfig:11:17: \"token\" must be text, not number");
  EXPECT_EQ(MessageOf(ParseParts("{server: \"https://h\", insecure-skip-tls-verify: 3}", "{}")),
            "kubeconfig:8:60: \"insecure-skip-tls-verify\" must be true or false");
  EXPECT_NE(MessageOf(ParseParts("{server: \"https://h\", certificate-authority-data: '%%'}", "{}"))
                .find("not base64"),
            std::string::npos);
  EXPECT_NE(MessageOf(ParseParts("{server: \"https://h\"}", "{tokenFile: nowhere}"))
                .find("kubeconfig:11:21: tokenFile"),
            std::string::npos);
  EXPECT_NE(MessageOf(ParseParts("{server: \"https://h\"}", "{auth-provider: {name: gcp}}"))
                .find("not supported"),
            std::string::npos);
}

TEST_F(KubeconfigTest, ACertificateNeedsItsKey) {
  Write("cert.pem", kPem);
  EXPECT_EQ(MessageOf(ParseParts("{server: \"https://h\"}", "{client-certificate: cert.pem}")),
            "kubeconfig:11:9: client-certificate needs a client-key beside it");
}

TEST_F(KubeconfigTest, AMissingFileIsNotFound) {
  const auto config = LoadKubeconfig(folder_ / "nothing");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, Code::kNotFound);
  EXPECT_NE(config.error().message.find("nothing"), std::string::npos);
}

TEST_F(KubeconfigTest, TokenFilesAreFollowed) {
  Write("token", "one\n");
  const auto config = ParseParts("{server: \"https://h\"}", "{tokenFile: token, token: fixed}");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->credentials->Current({})->bearer_token, "one");
  Write("token", "two");
  EXPECT_EQ(config->credentials->Current({})->bearer_token, "two");
  // The last token stands while the file is away.
  std::filesystem::remove(folder_ / "token");
  EXPECT_EQ(config->credentials->Current({})->bearer_token, "two");
}

// kNotFound is evidence that an object of the cluster does not exist.
TEST_F(KubeconfigTest, WhatIsMissingToIdentifyUsIsNotTakenForAMissingObject) {
  for (const std::string user :
       {"{tokenFile: gone}", "{client-certificate: gone, client-key: gone}",
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin}}",
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /etc/passwd}}"}) {
    Write("gone", "x");
    const auto config = ParseParts("{server: \"https://127.0.0.1:1\"}", user);
    ASSERT_TRUE(config) << user << config.error().message;
    std::filesystem::remove(folder_ / "gone");
    const auto credentials = config->credentials->Current({});
    ASSERT_FALSE(credentials) << user;
    EXPECT_EQ(credentials.error().code, Code::kUnavailable) << credentials.error().ToString();
    const auto client = Client::Create(*config);
    ASSERT_TRUE(client);
    const auto node = (*client)->Get(kNodes, {.name = "n"});
    ASSERT_FALSE(node) << user;
    EXPECT_EQ(node.error().code, Code::kUnavailable) << node.error().ToString();
  }
  const auto authority = ParseParts("{server: \"https://h\", certificate-authority: none}", "{}");
  ASSERT_FALSE(authority);
  EXPECT_EQ(authority.error().code, Code::kInvalid);
}

TEST_F(KubeconfigTest, CredentialsOfOtherSourcesAreNoEvidenceEither) {
  class Source final : public CredentialSource {
   public:
    base::Result<Credentials> Current(const io::StopToken& /*stop*/) override {
      return base::Fail(base::NotFound("NoSuchToken", "there is no token"));
    }
  };
  Config config{.server = "https://127.0.0.1:1", .credentials = std::make_shared<Source>()};
  const auto client = Client::Create(std::move(config));
  ASSERT_TRUE(client);
  const auto node = (*client)->Get(kNodes, {.name = "n"});
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().code, Code::kUnavailable);
  EXPECT_EQ((*client)->OpenStream(RawRequest("/x"), std::chrono::seconds(1), {}).error().code,
            Code::kUnavailable);
}

TEST_F(KubeconfigTest, AFileIsReadAgainAfterAMinuteOrARejection) {
  // As if on a file system that tells no change: same size, and the old times put back.
  Write("token", "one");
  struct stat before{};
  ASSERT_EQ(::stat((folder_ / "token").c_str(), &before), 0);
  RotatingFile file(folder_ / "token");
  const auto start = base::SteadyClock::now();
  const auto replace_unseen = [&](const char* content) {
    FILE* same = std::fopen((folder_ / "token").c_str(), "r+");
    ASSERT_NE(same, nullptr);
    std::fputs(content, same);
    std::fclose(same);
    const timespec times[2] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, (folder_ / "token").c_str(), times, 0), 0);
  };
  EXPECT_EQ(file.Content(start), "one");
  replace_unseen("two");
  EXPECT_EQ(file.Content(start + std::chrono::seconds(59)), "one");
  EXPECT_EQ(file.Content(start + std::chrono::seconds(61)), "two");
  replace_unseen("six");
  EXPECT_EQ(file.Content(start + std::chrono::seconds(62)), "two");
  file.Expire();
  EXPECT_EQ(file.Content(start + std::chrono::seconds(62)), "six");
}

TEST_F(KubeconfigTest, InClusterNeedsItsEnvironment) {
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_EQ(LoadInCluster(folder_).error().reason, "NotInCluster");
  ::setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  ::unsetenv("KUBERNETES_SERVICE_PORT");
  EXPECT_EQ(LoadInCluster(folder_).error().reason, "NotInCluster") << "half of it is none";
  ::setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  const auto missing = LoadInCluster(folder_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kUnavailable);
  EXPECT_EQ(missing.error().reason, "CredentialsUnreadable");
  Write("ca.crt", kPem);
  Write("token", "tok");
  Write("namespace", "space\n");
  const auto config = LoadInCluster(folder_);
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  ::unsetenv("KUBERNETES_SERVICE_PORT");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->default_namespace, "space");
  EXPECT_EQ(config->credentials->Current({})->bearer_token, "tok");
}

class EnvironmentTest : public KubeconfigTest {
 protected:
  void SetUp() override {
    KubeconfigTest::SetUp();
    for (const char* name :
         {"HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name,
                           value == nullptr ? std::nullopt : std::optional(std::string(value)));
      ::unsetenv(name);
    }
    ::setenv("HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name, value->c_str(), 1);
      } else {
        ::unsetenv(name);
      }
    }
    KubeconfigTest::TearDown();
  }
  // Of a cluster with the file's name.
  std::string WriteOne(const std::string& name) {
    Write(name,
          "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
          "clusters: [{name: c, cluster: {server: \"http://" +
              std::filesystem::path(name).filename().string() + "\"}}]\n");
    return (folder_ / name).string();
  }
  static std::string ServerOf(const base::Result<Config>& config) {
    return config ? config->server : config.error().reason;
  }

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

// The order of kubectl; a pod's own identity comes before a home folder.
TEST_F(EnvironmentTest, TheClusterIsTheFirstThatIsNamed) {
  EXPECT_EQ(ServerOf(LoadConfig("")), "NoClusterConfiguration");
  WriteOne(".kube/config");
  EXPECT_EQ(ServerOf(LoadConfig("")), "http://config");
  ::setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  EXPECT_NE(ServerOf(LoadConfig("")), "http://config") << "a pod without its token is no person";
  const std::string one = WriteOne("one");
  const std::string missing = (folder_ / "missing").string();
  ::setenv("KUBECONFIG", (missing + ":" + one).c_str(), 1);
  EXPECT_EQ(ServerOf(LoadConfig("")), "http://one");
  EXPECT_EQ(ServerOf(LoadConfig(WriteOne("two"))), "http://two");
  ::setenv("KUBECONFIG", missing.c_str(), 1);
  EXPECT_FALSE(LoadConfig("")) << "what is named is not passed over";
}

constexpr std::string_view kPlugin = R"(#!/bin/sh
echo run >> "$PLUGIN_LOG"
case "$1" in
fail) echo "no such user" >&2; exit 3 ;;
hang) exec sleep 600 ;;
esac
echo "$KUBERNETES_EXEC_INFO" > "$PLUGIN_LOG.info"
cat <<END
{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",
 "status":{"token":"from-plugin","expirationTimestamp":"$EXPIRES"}}
END
)";

class PluginTest : public KubeconfigTest {
 protected:
  void SetUp() override {
    KubeconfigTest::SetUp();
    Write("plugin", kPlugin, 0700);
  }
  base::Result<Config> ParsePlugin(const std::string& more, const std::string& expires,
                                   const std::string& cluster = "{server: \"https://h\"}") {
    return ParseParts(cluster,
                      "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, "
                      "env: [{name: PLUGIN_LOG, value: \"" +
                          (folder_ / "log").string() + "\"}, {name: EXPIRES, value: \"" + expires +
                          "\"}], " + more + "}}");
  }
  [[nodiscard]] std::size_t runs() const {
    return base::ReadFile(folder_ / "log").value_or("").size() / 4;
  }
};

TEST_F(PluginTest, AsksOnceUntilTheTokenExpiresOrIsRejected) {
  const auto config = ParsePlugin("provideClusterInfo: true", "2999-01-01T00:00:00Z");
  ASSERT_TRUE(config) << config.error().message;
  for (int i = 0; i < 3; ++i) {
    const auto credentials = config->credentials->Current({});
    ASSERT_TRUE(credentials) << credentials.error().message;
    EXPECT_EQ(credentials->bearer_token, "from-plugin");
  }
  EXPECT_EQ(runs(), 1U);
  config->credentials->Reject();
  EXPECT_TRUE(config->credentials->Current({}));
  EXPECT_EQ(runs(), 2U);
  const auto info = codec::ParseJson(*base::ReadFile(folder_ / "log.info"));
  ASSERT_TRUE(info);
  EXPECT_EQ((*info)["apiVersion"], "client.authentication.k8s.io/v1");
  EXPECT_EQ((*info)["spec"]["cluster"]["server"], "https://h");
  EXPECT_EQ((*info)["spec"]["interactive"], false);

  const auto expired = ParsePlugin("interactiveMode: Never", "2001-01-01T00:00:00Z");
  EXPECT_TRUE(expired->credentials->Current({}));
  EXPECT_TRUE(expired->credentials->Current({}));
  EXPECT_EQ(runs(), 4U);
}

TEST_F(PluginTest, LearnsAllThatIsSaidAboutTheCluster) {
  const auto config =
      ParsePlugin("provideClusterInfo: true", "2999-01-01T00:00:00Z",
                  "{server: \"https://h\", insecure-skip-tls-verify: true, tls-server-name: other, "
                  "proxy-url: \"http://p:1\", extensions: [{name: other, extension: {a: 1}}, "
                  "{name: client.authentication.k8s.io/exec, extension: {audience: tests}}]}");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_TRUE(config->credentials->Current({}));
  const auto info = codec::ParseJson(*base::ReadFile(folder_ / "log.info"));
  ASSERT_TRUE(info);
  EXPECT_EQ((*info)["spec"]["cluster"], (codec::Json{{"server", "https://h"},
                                                     {"insecure-skip-tls-verify", true},
                                                     {"tls-server-name", "other"},
                                                     {"proxy-url", "http://p:1"},
                                                     {"config", {{"audience", "tests"}}}}));
}

TEST_F(PluginTest, AFailureTellsWhatThePluginSaid) {
  const auto config = ParsePlugin("args: [fail]", "2999-01-01T00:00:00Z");
  const auto credentials = config->credentials->Current({});
  ASSERT_FALSE(credentials);
  EXPECT_EQ(credentials.error().reason, "ExecPluginFailed");
  EXPECT_NE(credentials.error().message.find("status 3: no such user"), std::string::npos);
}

TEST_F(PluginTest, APluginIsRunWhereThereIsNoPidfd) {
  const auto config = ParsePlugin("interactiveMode: Never", "2999-01-01T00:00:00Z");
  test_support::WithoutPidfd([&] {
    const auto credentials = config->credentials->Current({});
    ASSERT_TRUE(credentials) << credentials.error().message;
    EXPECT_EQ(credentials->bearer_token, "from-plugin");
  });
}

TEST_F(PluginTest, AHangingPluginEndsWithTheStop) {
  const auto config = ParsePlugin("args: [hang]", "2999-01-01T00:00:00Z");
  const io::StopSource stop;
  stop.Stop();
  EXPECT_EQ(config->credentials->Current(stop.token()).error().code, Code::kCancelled);
}

TEST_F(PluginTest, AMissingPluginTellsTheHint) {
  const auto config = ParseParts(
      "{server: \"https://h\"}",
      "{exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin-anywhere, "
      "installHint: install it}}");
  ASSERT_TRUE(config) << config.error().message;
  const auto credentials = config->credentials->Current({});
  ASSERT_FALSE(credentials);
  EXPECT_EQ(credentials.error().reason, "ExecPluginMissing");
  EXPECT_NE(credentials.error().message.find("install it"), std::string::npos);
}

TEST_F(PluginTest, OddOutputIsRefused) {
  const ExecPlugin plugin{.api_version = "client.authentication.k8s.io/v1", .command = "p"};
  const auto reason = [&](std::string_view output) {
    const auto parsed = ParseExecCredential(output, plugin);
    return parsed ? "fine" : parsed.error().message;
  };
  EXPECT_NE(reason("nonsense").find("its output"), std::string::npos);
  EXPECT_NE(reason(R"({"kind":"Pod"})").find("not an ExecCredential"), std::string::npos);
  EXPECT_NE(
      reason(R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"})")
          .find("asks for"),
      std::string::npos);
  const std::string head =
      R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1")";
  EXPECT_NE(reason(head + "}").find("no status"), std::string::npos);
  EXPECT_NE(reason(head + R"(,"status":{}})").find("neither"), std::string::npos);
  EXPECT_NE(reason(head + R"(,"status":{"clientKeyData":"k"}})").find("together"),
            std::string::npos);
  EXPECT_EQ(reason(head + R"(,"status":{"token":"t"}})"), "fine");
}

}  // namespace
}  // namespace pitcrew::kube
