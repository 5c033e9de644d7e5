#include "dashboard/options.h"

#include <fmt/format.h>

#include "base/command_line.h"

namespace pitcrew::dashboard {
namespace {

constexpr std::string_view kHelp =
    "Shows the fleet on a web page of this machine: nodes by the links of the chain, their GPUs, "
    "pods that wait, roll-outs under way, and behind each broken link what doctor says. Reads the "
    "cluster with your own kubeconfig and rights, follows it until Ctrl-C, and changes nothing. "
    "Exit status: 0 ended by a signal, 1 the cluster cannot be read, 2 wrong usage.";

constexpr std::int64_t kLastPort = 65535;

base::Error BadUsage(std::string message) { return base::Invalid("BadUsage", std::move(message)); }

// What is for one person, and what for users of the cluster.
base::Status Check(const Options& options, bool has_port) {
  const bool in_cluster = !options.listen.empty();
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return base::Fail(
        BadUsage("--tls-certificate-file and --tls-key-file are given together or not at all"));
  }
  if (!in_cluster && (!options.certificate_file.empty() || !options.hosts.empty())) {
    return base::Fail(BadUsage(
        "--tls-certificate-file, --tls-key-file and --host are for --listen: the loopback address "
        "is served without TLS"));
  }
  if (in_cluster && has_port) {
    return base::Fail(BadUsage("--port is for the loopback address; --listen names its own"));
  }
  if (in_cluster && !options.file.empty()) {
    return base::Fail(BadUsage("--listen asks a cluster who may see it; a file cannot say that"));
  }
  return {};
}

}  // namespace

base::Result<std::optional<Options>> ReadOptions(int argc, const char* const* argv) {
  Options options;
  std::optional<std::string> name_space, file, listen, certificate, key;
  std::optional<std::vector<std::string>> hosts;
  std::optional<std::int64_t> port;
  std::optional<bool> readings;
  snapshot::ConnectionFlags connection;
  base::CommandLine line("dashboard", kHelp, "pitcrew " PITCREW_VERSION);
  line.Add({"port", "", "port on the loopback address (a free one otherwise)"}, &port);
  snapshot::AddOperatorNamespace(line, name_space);
  connection.AddTo(line);
  line.Add(
      {"cluster,file", "", "show objects of this file instead (YAML or JSON; - is standard input)"},
      &file);
  line.Add({"readings", "",
            "ask the metrics exporter of a node that is looked at, by way of the API server "
            "(pods/proxy); --readings=false: not"},
           &readings);
  line.Add({"listen", "",
            "in a cluster: serve HTTPS on this address ([HOST]:PORT) to whoever has a token that "
            "may list nodes and pods"},
           &listen);
  line.Add({"tls-certificate-file", "",
            "certificate of --listen, with its chain; read again for each connection (one of its "
            "own otherwise)"},
           &certificate);
  line.Add({"tls-key-file", "", "its key"}, &key);
  line.Add({"host", "", "a name for the certificate that --listen makes for itself; repeatable"},
           &hosts);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv));
  if (!go_on) return std::nullopt;
  if (port && (*port < 0 || *port > kLastPort)) {
    return base::Fail(
        BadUsage(fmt::format("--port {} is no port; write one from 1 to {}", *port, kLastPort)));
  }
  options.name_space = name_space.value_or("");
  options.connection = connection.Read();
  options.file = file.value_or("");
  options.port = static_cast<int>(port.value_or(0));
  options.listen = listen.value_or("");
  options.certificate_file = certificate.value_or("");
  options.key_file = key.value_or("");
  options.hosts = hosts.value_or(std::vector<std::string>());
  // In a cluster the rights are this program's, and not those of whoever looks.
  options.readings = readings.value_or(options.listen.empty());
  TRY(Check(options, port.has_value()));
  return options;
}

}  // namespace pitcrew::dashboard
