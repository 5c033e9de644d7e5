#include "node/toolkit/node_engine.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "codec/toml.h"
#include "node/toolkit/containerd.h"
#include "node/toolkit/engine_command.h"
#include "node/toolkit/engine_process.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using codec::Json;

constexpr std::string_view kSockets[] = {
    "/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock", "/run/k0s/containerd.sock"};
constexpr std::string_view kOrdinaryConfig = "/etc/containerd/config.toml";
constexpr std::string_view kFolders[] = {"/var/lib/rancher/k3s/agent/etc/containerd",
                                         "/var/lib/rancher/rke2/agent/etc/containerd",
                                         "/var/snap/microk8s/current/args", "/etc/k0s"};
constexpr std::string_view kVariables =
    "set CONTAINERD_SOCKET to the one of the kubelet, or CONTAINERD_CONFIG and CONTAINERD_SOCKET";
constexpr int kMostParents = 8;

bool IsThere(const host::Root& root, std::string_view path) {
  return root.Resolve(path).has_value();
}

// As this process sees it. What does not exist yet keeps its name.
fs::path Seen(const host::Root& root, const fs::path& path) {
  const auto folder = root.Resolve(path.parent_path().string());
  return folder ? *folder / path.filename() : root.At(path.string());
}

// The socket of the containerd that started this very pod, from the command line of its shim.
std::string OwnSocket(const NodeView& node) {
  pid_t pid = node.self;
  for (int i = 0; i < kMostParents && pid > 1; ++i, pid = ParentOf(node.proc, pid)) {
    const auto words = CommandLineOf(node.proc, pid);
    if (words.empty() || !fs::path(words[0]).filename().string().starts_with("containerd-shim")) {
      continue;
    }
    return OptionOf(words, {"-address", "--address"});
  }
  return {};
}

struct FoundProcess {
  fs::path socket;
  pid_t pid = 0;  // 0: not seen
  std::string why;
};

base::Result<FoundProcess> ProcessOf(const fs::path& socket, std::string why) {
  FoundProcess found{socket, 0, std::move(why)};
  const auto engine = FindEngine(socket);
  if (engine) found.pid = engine->pid;
  // Where the pid namespace hides it, it cannot be asked; that is no reason to fail.
  if (engine || engine.error().reason == "EngineNotVisible") return found;
  return base::Fail(engine.error());
}

// Of a distribution, on the node; empty without any.
std::string_view FolderOfADistribution(const NodeView& node) {
  for (const auto folder : kFolders) {
    if (IsThere(node.root, folder)) return folder;
  }
  return {};
}

base::Error EngineDown(const NodeView& node, std::string_view folder, const std::string& who) {
  return {base::Code::kUnavailable, "EngineDown",
          fmt::format("{}, and {} is there: start it, or {}; RUNTIME_DISTRIBUTION=none where that "
                      "folder is of no use any more",
                      who, node.root.At(std::string(folder)).string(), kVariables)};
}

base::Result<FoundProcess> OnlyOneThatAnswers(const NodeView& node) {
  std::vector<FoundProcess> answering;
  for (const auto socket : kSockets) {
    auto found = ProcessOf(Seen(node.root, socket), "it is the only one that answers");
    if (found) answering.push_back(*std::move(found));
  }
  if (answering.size() == 1) return answering.front();
  if (answering.size() > 1) {
    std::vector<std::string> names;
    for (const auto& found : answering) names.push_back(found.socket.string());
    return base::Fail(base::Invalid(
        "SeveralEngines", fmt::format("several containerds answer on this node ({}), and it is not "
                                      "known which one the kubelet uses: {}",
                                      base::Join(names, ", "), kVariables)));
  }
  if (const auto folder = FolderOfADistribution(node); !folder.empty()) {
    return base::Fail(EngineDown(node, folder, "no containerd answers on this node"));
  }
  return FoundProcess{{}, 0, "no containerd answers"};
}

base::Result<FoundProcess> FindProcess(const NodeView& node, const fs::path& chosen) {
  if (!chosen.empty()) {
    auto found = ProcessOf(chosen, "its socket is set");
    if (found) return found;
    // In a restart it tells no more whose it is: of a distribution it may be where one has its
    // folders. Where none has, its files are those of an ordinary one.
    const std::string nobody = "nobody answers on the socket that is set, " + chosen.string();
    if (const auto folder = FolderOfADistribution(node); !folder.empty()) {
      return base::Fail(EngineDown(node, folder, nobody));
    }
    return FoundProcess{chosen, 0, nobody};
  }
  if (const std::string own = OwnSocket(node); !own.empty()) {
    auto found = ProcessOf(Seen(node.root, own), "it runs this pod");
    // In a restart, or out of sight: where it is the ordinary one, nothing is to be known of it.
    if (!found && own == kSockets[0]) return FoundProcess{{}, 0, found.error().message};
    return found;
  }
  return OnlyOneThatAnswers(node);
}

// k3s and RKE2 have the same engine, socket and layout: the unit, or the process that keeps
// containerd, tells them apart; then the name of the folder.
base::Result<Distribution> K3sOrRke2(const NodeView& node, pid_t pid, const NodeEngine& engine) {
  const auto parent = CommandLineOf(node.proc, ParentOf(node.proc, pid));
  const std::string program = parent.empty() ? "" : fs::path(parent[0]).filename().string();
  for (const std::string& name : {engine.unit, program}) {
    if (name.starts_with("rke2")) return Distribution::kRke2;
    if (name.starts_with("k3s")) return Distribution::kK3s;
  }
  for (const auto& part : engine.config) {
    if (part == "rke2") return Distribution::kRke2;
    if (part == "k3s") return Distribution::kK3s;
  }
  return base::Fail(base::Invalid(
      "K3sOrRke2", fmt::format("the containerd with {} is that of k3s or of RKE2, and neither its "
                               "unit (\"{}\") nor the program above it (\"{}\") tells which: set "
                               "RUNTIME_DISTRIBUTION",
                               engine.config.string(), engine.unit, program)));
}

base::Result<Distribution> DistributionOf(const NodeView& node, pid_t pid,
                                          const NodeEngine& engine) {
  const std::string config = engine.config.string();
  if (config.ends_with("/agent/etc/containerd/config.toml")) return K3sOrRke2(node, pid, engine);
  if (config == kOrdinaryConfig) return Distribution::kNone;
  if (engine.unit.starts_with("snap.microk8s.")) return Distribution::kMicroK8s;
  if (engine.unit.starts_with("k0s")) return Distribution::kK0s;
  // Without systemd: what the daemon was told to read.
  if (config.find("/microk8s/") != std::string::npos) return Distribution::kMicroK8s;
  if (config == "/etc/k0s/containerd.toml") return Distribution::kK0s;
  return Distribution::kNone;
}

// The root of the node's first process is not mounted read-only for a pod, as /host is.
base::Result<host::Root> WritableRoot(const NodeView& node) {
  struct statvfs mount{};
  if (::statvfs(node.root.path().c_str(), &mount) != 0) {
    return base::Fail(base::FromErrno(errno, "look at " + node.root.path().string()));
  }
  if ((mount.f_flag & ST_RDONLY) == 0) return node.root;
  const auto other = node.proc / "1/root";
  struct stat ours{};
  struct stat theirs{};
  if (::stat(node.root.path().c_str(), &ours) == 0 && ::stat(other.c_str(), &theirs) == 0 &&
      ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino) {
    return host::Root(other);
  }
  return base::Fail(base::Error{
      base::Code::kUnsupported, "NodeIsReadOnly",
      fmt::format("{} is mounted read-only, and {} is not the same root: the pod needs hostPID: "
                  "true, or CONTAINERD_CONFIG and RUNTIME_DROP_IN_CONFIG in folders that are "
                  "mounted",
                  node.root.path().string(), other.string())});
}

base::Result<Json> ReadRootFile(const host::Root& root, const fs::path& config) {
  const auto seen = Seen(root, config);
  TRY_ASSIGN(const std::string text, base::ReadFile(seen));
  return codec::ParseToml(text, seen.string());
}

bool Imports(const Json& config, const fs::path& file) {
  const Json* imports = codec::Find(config, {"imports"});
  return imports != nullptr && imports->is_array() &&
         std::ranges::any_of(*imports, [&](const Json& import) {
           return import.is_string() &&
                  ::fnmatch(import.get<std::string>().c_str(), file.c_str(), FNM_PATHNAME) == 0;
         });
}

// On the node.
struct Place {
  Placement placement = Placement::kRootFile;
  fs::path file;
};

bool IsFoundByItself(const Options& options) {
  const auto& engine = options.engine;
  return options.toolkit_folder() == "/usr/local/nvidia/toolkit" && !engine.set_as_default &&
         (engine.runtime_name.empty() || engine.runtime_name == "nvidia") &&
         engine.annotation_prefixes.empty();
}

base::Result<Place> PlaceInK3s(const host::Root& root, const fs::path& config,
                               const Options& options) {
  const auto folder = config.parent_path();
  TRY_ASSIGN(const Json rendered, ReadRootFile(root, config));
  if (IsFoundByItself(options)) return Place{Placement::kFoundByItself, {}};
  TRY_ASSIGN(const int version, ConfigVersion(rendered, 2));
  const std::string name = version >= 3 ? "config-v3.toml" : "config.toml";
  const auto drop_in = folder / (name + ".d") / "99-nvidia.toml";
  if (Imports(rendered, drop_in)) return Place{Placement::kDropIn, drop_in};
  const auto newer = folder / "config-v3.toml.tmpl";
  if (version < 3 && IsThere(root, newer.string())) {
    return base::Fail(base::Invalid(
        "TemplateNotUsed",
        fmt::format("{} has version {} although {} stands beside it: restart the distribution so "
                    "that it uses it, remove it, or set CONTAINERD_CONFIG",
                    config.string(), version, newer.string())));
  }
  // An older template serves newer releases too, which then write version 2.
  return Place{Placement::kTemplate, folder / (name + ".tmpl")};
}

base::Result<Place> PlaceInK0s(const host::Root& root, const fs::path& config) {
  const auto drop_in = config.parent_path() / "containerd.d/99-nvidia.toml";
  TRY_ASSIGN(const std::string text, base::ReadFile(Seen(root, config)));
  TRY_ASSIGN(const Json parsed, codec::ParseToml(text, config.string()));
  if (text.starts_with("# k0s_managed=true\n") || Imports(parsed, drop_in)) {
    return Place{Placement::kDropIn, drop_in};
  }
  return base::Fail(base::Invalid(
      "NotManagedByK0s",
      fmt::format("{} is not managed by k0s (its first line is not \"# k0s_managed=true\") and "
                  "does not import {}: add that import, or set CONTAINERD_CONFIG",
                  config.string(), drop_in.string())));
}

base::Result<Place> PlaceInMicroK8s(const host::Root& root, const fs::path& config) {
  const auto file = config.parent_path() / "containerd-template.toml";
  if (IsThere(root, file.string())) return Place{Placement::kTemplate, file};
  return base::Fail(base::NotFound(
      "TemplateNotFound",
      fmt::format("MicroK8s makes {} from {}, which is not there: set CONTAINERD_CONFIG",
                  config.string(), file.string())));
}

base::Result<Place> PlaceFor(const host::Root& root, const NodeEngine& engine,
                             const Options& options) {
  switch (engine.distribution) {
    case Distribution::kK3s:
    case Distribution::kRke2:
      return PlaceInK3s(root, engine.config, options);
    case Distribution::kK0s:
      return PlaceInK0s(root, engine.config);
    case Distribution::kMicroK8s:
      return PlaceInMicroK8s(root, engine.config);
    case Distribution::kNone:
      break;
  }
  return Place{};
}

base::Result<RestartMode> RestartOf(const NodeEngine& engine) {
  if (engine.distribution == Distribution::kK0s) return RestartMode::kByDistribution;
  if (!engine.unit.empty()) return RestartMode::kSystemd;
  return base::Fail(
      base::Invalid("NoUnit", fmt::format("the containerd of {} is in no unit of systemd: set "
                                          "RUNTIME_RESTART_MODE to none and restart it yourself",
                                          ToString(engine.distribution))));
}

base::Status CheckDeclared(const Options& options, const NodeEngine& engine) {
  const auto& declared = options.given.distribution;
  if (!declared || *declared == engine.distribution) return {};
  return base::Fail(base::Invalid(
      "OtherDistribution",
      fmt::format(
          "--distribution (RUNTIME_DISTRIBUTION) is {}, but the containerd at {} is that of "
          "{} (unit \"{}\", configuration \"{}\")",
          ToString(*declared), engine.socket.string(), ToString(engine.distribution), engine.unit,
          engine.config.string())));
}

// Both are named as the process itself has been told, so on the node.
fs::path ConfigOf(const std::vector<std::string>& words) {
  const fs::path config = OptionOf(words, {"--config", "-c", "-config"});
  return config.empty() ? fs::path(kOrdinaryConfig) : config;
}

}  // namespace

base::Result<NodeEngine> FindNodeEngine(const NodeView& node, const fs::path& socket) {
  TRY_ASSIGN(const FoundProcess found, FindProcess(node, socket));
  NodeEngine engine;
  engine.socket = found.socket;
  engine.why = found.why;
  if (found.pid == 0) return engine;
  engine.config = ConfigOf(CommandLineOf(node.proc, found.pid));
  engine.unit = UnitOf(node.proc, found.pid);
  TRY_ASSIGN(engine.distribution, DistributionOf(node, found.pid, engine));
  return engine;
}

base::Status ConfigureForDistribution(const NodeView& node, Options& options) {
  EngineOptions& engine = options.engine;
  if (engine.kind != EngineKind::kContainerd || options.given.config || options.given.drop_in ||
      options.given.distribution == Distribution::kNone) {
    return {};
  }
  TRY_ASSIGN(const NodeEngine found,
             FindNodeEngine(node, options.given.socket ? engine.socket : fs::path()));
  TRY(CheckDeclared(options, found));
  if (found.distribution == Distribution::kNone) {
    base::LogInfo("The node's containerd is that of no distribution", {{"why", found.why}});
    return {};
  }
  TRY_ASSIGN(const host::Root root, WritableRoot(node));
  TRY_ASSIGN(const Place place, PlaceFor(root, found, options));
  engine.host_root = root.path();
  engine.config = Seen(root, found.config);
  engine.drop_in = place.file.empty() ? fs::path() : Seen(root, place.file);
  if (!options.given.socket) engine.socket = found.socket;
  engine.distribution = {found.distribution, place.placement, found.unit};
  engine.restart_time = kDistributionRestartTime;
  if (!options.given.restart) {
    TRY_ASSIGN(engine.restart, RestartOf(found));
  }
  base::LogInfo("Found the container engine of the node",
                {{"distribution", ToString(found.distribution)},
                 {"why", found.why},
                 {"unit", found.unit},
                 {"config", engine.config.string()},
                 {"written", place.file.empty() ? "nothing: it finds the runtimes by itself"
                                                : engine.drop_in.string()}});
  return {};
}

}  // namespace pitcrew::node::toolkit
