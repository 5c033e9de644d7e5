#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "kube/config.h"
#include "kube/credentials.h"

namespace pitcrew::kube {
namespace {

using codec::Json;

// One member of a document with its JSON pointer, so that errors can say where it stands.
class Node {
 public:
  Node(const Json* value, std::string pointer, const codec::YamlPlaces& places)
      : value_(value), pointer_(std::move(pointer)), places_(&places) {}

  [[nodiscard]] bool there() const { return value_ != nullptr && !value_->is_null(); }
  [[nodiscard]] const Json& value() const { return *value_; }

  [[nodiscard]] Node At(const std::string& name) const {
    const Json* member = nullptr;
    if (there() && value_->is_object()) {
      if (const auto found = value_->find(name); found != value_->end()) member = &*found;
    }
    return {member, pointer_ + "/" + name, *places_};
  }

  [[nodiscard]] std::vector<Node> Items() const {
    std::vector<Node> items;
    if (!there() || !value_->is_array()) return items;
    for (std::size_t i = 0; i < value_->size(); ++i) {
      items.emplace_back(&(*value_)[i], fmt::format("{}/{}", pointer_, i), *places_);
    }
    return items;
  }

  [[nodiscard]] std::unexpected<base::Error> Wrong(std::string_view problem) const {
    return base::Fail(
        base::Invalid("InvalidKubeconfig", fmt::format("{}: {}", places_->Of(pointer_), problem)));
  }

  // Empty when missing.
  [[nodiscard]] base::Result<std::string> Text() const {
    if (!there()) return "";
    if (!value_->is_string()) {
      return Wrong(fmt::format("\"{}\" must be text, not {}", Name(), value_->type_name()));
    }
    return value_->get<std::string>();
  }

  [[nodiscard]] base::Result<bool> Flag() const {
    if (!there()) return false;
    if (!value_->is_boolean()) return Wrong(fmt::format("\"{}\" must be true or false", Name()));
    return value_->get<bool>();
  }

  [[nodiscard]] std::string Name() const { return pointer_.substr(pointer_.rfind('/') + 1); }

 private:
  const Json* value_;
  std::string pointer_;
  const codec::YamlPlaces* places_;
};

class Reader {
 public:
  Reader(Node root, std::string_view source, std::filesystem::path folder)
      : root_(std::move(root)), source_(source), folder_(std::move(folder)) {}

  base::Result<Config> Read(std::string_view wanted_context) {
    TRY(CheckShape());
    TRY_ASSIGN(std::string name, root_.At("current-context").Text());
    if (!wanted_context.empty()) name = wanted_context;
    if (name.empty()) {
      return root_.At("current-context")
          .Wrong(fmt::format("current-context is not set; set it to one of: {}",
                             KnownNames("contexts")));
    }
    TRY_ASSIGN(const Node entry, Named("contexts", name, root_.At("current-context")));
    const Node context = entry.At("context");
    Config config;
    config.origin = fmt::format("kubeconfig {}, context {}", source_, name);
    TRY_ASSIGN(const std::string cluster, context.At("cluster").Text());
    if (cluster.empty())
      return context.Wrong("the context names no cluster; add \"cluster: NAME\"");
    TRY_ASSIGN(const Node cluster_entry, Named("clusters", cluster, context.At("cluster")));
    TRY(ReadCluster(cluster_entry.At("cluster"), config));
    TRY_ASSIGN(const std::string space, context.At("namespace").Text());
    if (!space.empty()) config.default_namespace = space;
    UserSettings settings;
    TRY_ASSIGN(const std::string user, context.At("user").Text());
    if (!user.empty()) {
      TRY_ASSIGN(const Node user_entry, Named("users", user, context.At("user")));
      TRY(ReadUser(user_entry.At("user"), cluster_entry.At("cluster"), config, settings));
    }
    config.credentials = MakeCredentialSource(std::move(settings));
    return config;
  }

 private:
  base::Status CheckShape() {
    if (!root_.there() || !root_.value().is_object()) {
      return root_.Wrong(
          "not a kubeconfig: a mapping with clusters, contexts and users is expected");
    }
    TRY_ASSIGN(const std::string kind, root_.At("kind").Text());
    if (!kind.empty() && kind != "Config") {
      return root_.At("kind").Wrong(fmt::format("kind is \"{}\", not \"Config\"", kind));
    }
    for (const char* list : {"clusters", "contexts", "users"}) {
      const Node node = root_.At(list);
      if (node.there() && !node.value().is_array()) {
        return node.Wrong(fmt::format("\"{}\" must be a list of named entries", list));
      }
    }
    return {};
  }

  [[nodiscard]] std::string KnownNames(const std::string& list) const {
    std::vector<std::string> names;
    for (const Node& item : root_.At(list).Items()) {
      if (auto name = item.At("name").Text(); name && !name->empty()) names.push_back(*name);
    }
    return names.empty() ? "(the list is empty)" : base::Join(names, ", ");
  }

  base::Result<Node> Named(const std::string& list, const std::string& name, const Node& where) {
    for (const Node& item : root_.At(list).Items()) {
      TRY_ASSIGN(const std::string found, item.At("name").Text());
      if (found == name) return item;
    }
    return where.Wrong(fmt::format("\"{}\" is not among the {}: {}", name, list, KnownNames(list)));
  }

  // "<name>-data" (base64) wins over the file that "<name>" names, as in client-go.
  base::Result<std::string> Data(const Node& parent, const std::string& name) {
    const Node node = parent.At(name + "-data");
    TRY_ASSIGN(const std::string text, node.Text());
    if (text.empty()) return "";
    auto bytes = codec::DecodeBase64(text);
    if (!bytes) {
      return node.Wrong(fmt::format("{} is {}; put the base64 of the PEM text there",
                                    name + "-data", bytes.error().message));
    }
    if (bytes->find("-----BEGIN ") == std::string::npos) {
      return node.Wrong(fmt::format("{}-data holds no PEM block (-----BEGIN ...-----)", name));
    }
    return *std::move(bytes);
  }

  base::Result<std::filesystem::path> File(const Node& node) {
    TRY_ASSIGN(const std::string text, node.Text());
    if (text.empty()) return std::filesystem::path();
    auto path = folder_ / text;  // an absolute path replaces the folder
    if (const auto readable = base::ReadFile(path); !readable) {
      return node.Wrong(fmt::format("{}: {}", node.Name(), readable.error().message));
    }
    return path;
  }

  base::Status ReadCluster(const Node& cluster, Config& config) {
    const Node server = cluster.At("server");
    TRY_ASSIGN(config.server, server.Text());
    if (!config.server.starts_with("https://") && !config.server.starts_with("http://")) {
      return server.Wrong(
          fmt::format("server is \"{}\"; write for example https://10.0.0.1:6443", config.server));
    }
    while (config.server.ends_with('/')) config.server.pop_back();
    TRY_ASSIGN(config.insecure_skip_tls_verify, cluster.At("insecure-skip-tls-verify").Flag());
    TRY_ASSIGN(config.tls_server_name, cluster.At("tls-server-name").Text());
    TRY_ASSIGN(config.proxy_url, cluster.At("proxy-url").Text());
    TRY_ASSIGN(config.ca_pem, Data(cluster, "certificate-authority"));
    if (!config.ca_pem.empty()) return {};
    TRY_ASSIGN(config.ca_file, File(cluster.At("certificate-authority")));
    if (config.ca_file.empty()) return {};
    auto authority = base::ReadFile(config.ca_file);
    if (!authority) return base::Fail(CredentialProblem(std::move(authority).error()));
    config.ca_pem = *std::move(authority);
    return {};
  }

  base::Status ReadUser(const Node& user, const Node& cluster, const Config& config,
                        UserSettings& settings) {
    Credentials& fixed = settings.fixed;
    TRY_ASSIGN(fixed.bearer_token, user.At("token").Text());
    TRY_ASSIGN(settings.token_file, File(user.At("tokenFile")));
    TRY_ASSIGN(fixed.user_name, user.At("username").Text());
    TRY_ASSIGN(fixed.password, user.At("password").Text());
    TRY_ASSIGN(fixed.client_certificate_pem, Data(user, "client-certificate"));
    if (fixed.client_certificate_pem.empty()) {
      TRY_ASSIGN(settings.client_certificate_file, File(user.At("client-certificate")));
    }
    TRY_ASSIGN(fixed.client_key_pem, Data(user, "client-key"));
    if (fixed.client_key_pem.empty()) {
      TRY_ASSIGN(settings.client_key_file, File(user.At("client-key")));
    }
    const bool certificate =
        !fixed.client_certificate_pem.empty() || !settings.client_certificate_file.empty();
    const bool key = !fixed.client_key_pem.empty() || !settings.client_key_file.empty();
    if (certificate != key) {
      return user.Wrong(certificate ? "client-certificate needs a client-key beside it"
                                    : "client-key needs a client-certificate beside it");
    }
    for (const char* name : {"auth-provider", "as", "as-uid", "as-groups", "as-user-extra"}) {
      if (user.At(name).there()) {
        return user.At(name).Wrong(fmt::format(
            "\"{}\" is not supported; use a token, a client certificate or an exec plugin", name));
      }
    }
    if (user.At("exec").there()) TRY(ReadExec(user.At("exec"), cluster, config, settings));
    return {};
  }

  base::Status ReadExec(const Node& exec, const Node& cluster, const Config& config,
                        UserSettings& settings) {
    ExecPlugin plugin;
    TRY_ASSIGN(plugin.api_version, exec.At("apiVersion").Text());
    if (plugin.api_version != "client.authentication.k8s.io/v1" &&
        plugin.api_version != "client.authentication.k8s.io/v1beta1") {
      return exec.At("apiVersion")
          .Wrong(fmt::format("exec apiVersion is \"{}\"; client.authentication.k8s.io/v1 and "
                             "/v1beta1 are known",
                             plugin.api_version));
    }
    TRY_ASSIGN(plugin.command, exec.At("command").Text());
    if (plugin.command.empty()) return exec.Wrong("exec needs a \"command\"");
    // client-go: a path with a folder in it is relative to the kubeconfig, a bare name is in PATH.
    if (plugin.command.find('/') != std::string::npos) plugin.command = folder_ / plugin.command;
    for (const Node& argument : exec.At("args").Items()) {
      TRY_ASSIGN(std::string text, argument.Text());
      plugin.arguments.push_back(std::move(text));
    }
    for (const Node& variable : exec.At("env").Items()) {
      TRY_ASSIGN(std::string name, variable.At("name").Text());
      TRY_ASSIGN(std::string value, variable.At("value").Text());
      if (name.empty()) return variable.Wrong("an entry of exec.env needs a name");
      plugin.environment.emplace_back(std::move(name), std::move(value));
    }
    TRY_ASSIGN(plugin.install_hint, exec.At("installHint").Text());
    TRY_ASSIGN(const std::string interactive, exec.At("interactiveMode").Text());
    if (interactive == "Always") {
      return exec.At("interactiveMode").Wrong("a plugin that must have a terminal cannot be used");
    }
    TRY_ASSIGN(const bool provide, exec.At("provideClusterInfo").Flag());
    if (provide) plugin.cluster_info = ClusterInfo(cluster, config);
    settings.exec = std::move(plugin);
    return {};
  }

  static std::string ClusterInfo(const Node& cluster, const Config& config) {
    Json info{{"server", config.server}};
    if (!config.ca_pem.empty()) {
      info["certificate-authority-data"] = codec::EncodeBase64(config.ca_pem);
    }
    if (config.insecure_skip_tls_verify) info["insecure-skip-tls-verify"] = true;
    if (!config.tls_server_name.empty()) info["tls-server-name"] = config.tls_server_name;
    if (!config.proxy_url.empty()) info["proxy-url"] = config.proxy_url;
    for (const Node& extension : cluster.At("extensions").Items()) {
      const auto name = extension.At("name").Text();
      if (name && *name == "client.authentication.k8s.io/exec" &&
          extension.At("extension").there()) {
        info["config"] = extension.At("extension").value();
      }
    }
    return codec::ToJsonText(info);
  }

  Node root_;
  std::string source_;
  std::filesystem::path folder_;
};

}  // namespace

base::Result<Config> ParseKubeconfig(std::string_view text, std::string_view source,
                                     const std::filesystem::path& folder,
                                     std::string_view context) {
  codec::YamlPlaces places;
  TRY_ASSIGN(const Json document, codec::ParseYaml(text, source, places));
  return Reader(Node(&document, "", places), source, folder).Read(context);
}

}  // namespace pitcrew::kube
