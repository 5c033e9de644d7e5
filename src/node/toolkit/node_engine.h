// Which containerd runs a node's pods, and which Kubernetes distribution it belongs to, from what
// stands and runs on the node (runtimes-and-distributions.md 5.2): the processes decide, folders
// only explain.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "base/result.h"
#include "host/root.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// The node as this process sees it.
struct NodeView {
  host::Root root;
  std::filesystem::path proc = "/proc";
  pid_t self = 0;  // whose shim tells which containerd runs it; 0: nobody's
};

struct NodeEngine {
  Distribution distribution = Distribution::kNone;
  std::filesystem::path socket;  // as this process sees it
  std::filesystem::path config;  // root file, on the node
  std::string unit;              // of systemd, "k3s-agent.service"; empty where none is known
  std::string why;               // what it was found by
};

// `socket` is one that somebody chose, as this process sees it; empty: it is looked for.
//
// kInvalid "SeveralEngines" when several answer and none of them is known to run this pod;
// kUnavailable "EngineDown" when none answers and there are folders of a distribution: both name
// the variables to set. An engine whose process is in another pid namespace is no distribution's.
base::Result<NodeEngine> FindNodeEngine(const NodeView& node, const std::filesystem::path& socket);

// Fills in what nobody chose of `options.engine` for the distribution that was found, or that
// --distribution names; nothing where the configuration's path is chosen. `node.root` may be
// mounted read-only: then files are written by the root of the node's first process, if that is
// the same one.
base::Status ConfigureForDistribution(const NodeView& node, Options& options);

}  // namespace pitcrew::node::toolkit
