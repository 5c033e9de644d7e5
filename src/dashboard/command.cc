#include "dashboard/command.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/file.h"
#include "base/log.h"
#include "dashboard/access.h"
#include "dashboard/cluster_access.h"
#include "dashboard/feed.h"
#include "dashboard/fleet_source.h"
#include "dashboard/options.h"
#include "dashboard/secret.h"
#include "dashboard/site.h"
#include "doctor/source.h"
#include "io/own_certificate.h"
#include "io/program.h"
#include "snapshot/connection.h"
#include "snapshot/file.h"

namespace pitcrew::dashboard {
namespace {

constexpr std::size_t kTokenBytes = 24;
// More people look in a cluster than on one's own machine.
constexpr int kMostStreamsInCluster = 200;
constexpr std::chrono::hours kOwnCertificateLasts{24 * 365};

// Where it is served, and to whom.
struct Door {
  std::string address;
  std::unique_ptr<Access> access;
  std::function<base::Result<io::TlsIdentity>()> tls;
  int most_streams = SiteSettings().most_streams;
  // Tells people where it is, once it is known.
  std::function<void(int port)> announce;
};

Door LoopbackDoor(const Options& options) {
  const std::string token = RandomText(kTokenBytes);
  return {.address = fmt::format("127.0.0.1:{}", options.port),
          .access = LoopbackAccess(token),
          .tls = nullptr,
          .announce = [token](int port) {
            // The token stands behind '#', which browsers send to nobody.
            fmt::print("http://127.0.0.1:{}/#token={}\n", port, token);
            fmt::print("Open this address in a browser of this machine; Ctrl-C ends it.\n");
            std::fflush(stdout);
          }};
}

// The certificate as it is now: files are replaced while this runs.
base::Result<io::TlsIdentity> ReadIdentity(const Options& options) {
  io::TlsIdentity identity;
  TRY_ASSIGN(identity.certificate, base::ReadFile(options.certificate_file));
  TRY_ASSIGN(identity.key, base::ReadFile(options.key_file));
  return identity;
}

base::Result<Door> ClusterDoor(const Options& options, const std::shared_ptr<kube::Client>& client,
                               const io::StopToken& stop) {
  Door door{.address = options.listen,
            .access = ClusterAccess(client, stop),
            .tls = nullptr,
            .most_streams = kMostStreamsInCluster,
            .announce = [](int port) {
              base::LogInfo("the page is served", {{"port", std::to_string(port)}});
            }};
  if (!options.certificate_file.empty()) {
    door.tls = [options] { return ReadIdentity(options); };
    return door;
  }
  TRY_ASSIGN(const io::TlsIdentity own,
             io::MakeOwnCertificate(options.hosts, kOwnCertificateLasts));
  door.tls = [own]() -> base::Result<io::TlsIdentity> { return own; };
  return door;
}

// Serves what is in the feed while `work` goes on. The feed ends before the server, whose threads
// wait for it.
base::Status ServeWhile(Door door, codec::Json source, const FleetSource& fleet, Feed& feed,
                        const io::StopToken& stop, const std::function<base::Status()>& work) {
  Site site({.source = std::move(source), .most_streams = door.most_streams},
            std::move(door.access), feed,
            [&](const std::string& node) { return fleet.Detail(node, stop); });
  io::HttpServerOptions server_options = site.ServerOptions();
  server_options.tls = std::move(door.tls);
  TRY_ASSIGN(
      const auto server,
      io::HttpServer::StartWith(
          door.address, [&](const io::HttpServerRequest& request) { return site.Answer(request); },
          std::move(server_options)));
  door.announce(server->port());
  base::Status done = work();
  feed.Close();
  if (!done && done.error().code == base::Code::kCancelled) return {};
  return done;
}

base::Status ServeFile(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(fleet::Cluster cluster, doctor::FromFile(options.file, options.name_space));
  Feed feed;
  FleetSource fleet(nullptr, feed, {.readings = false});
  const codec::Json source = {{"kind", "file"},
                              {"name", snapshot::NameOfInput(options.file)},
                              {"time", base::FormatRfc3339(cluster.now)}};
  fleet.Show(std::move(cluster));
  return ServeWhile(LoopbackDoor(options), source, fleet, feed, stop, [&]() -> base::Status {
    stop.Wait();
    return {};
  });
}

base::Status ServeCluster(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(const std::shared_ptr<kube::Client> client, snapshot::Connect(options.connection));
  const std::string name_space = doctor::FindNamespace(*client, options.name_space, stop);
  TRY_ASSIGN(fleet::Cluster first,
             doctor::ReadLive(*client, name_space, stop, doctor::Extent::kFirst));
  Feed feed;
  FleetSource fleet(client, feed, {.readings = options.readings});
  const codec::Json source = {
      {"kind", "cluster"}, {"name", client->config().origin}, {"server", client->config().server}};
  TRY_ASSIGN(Door door,
             options.listen.empty() ? LoopbackDoor(options) : ClusterDoor(options, client, stop));
  return ServeWhile(std::move(door), source, fleet, feed, stop,
                    [&] { return fleet.Follow(std::move(first), stop); });
}

base::Status Serve(const Options& options, const io::StopToken& stop) {
  return options.file.empty() ? ServeCluster(options, stop) : ServeFile(options, stop);
}

}  // namespace

int Command(int argc, char** argv) {
  return io::RunProgram({.failure = "The dashboard cannot work"}, ReadOptions(argc, argv), Serve);
}

}  // namespace pitcrew::dashboard
