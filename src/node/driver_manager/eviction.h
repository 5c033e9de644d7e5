// Sending pods away so that nobody uses a node's driver (driver-lifecycle.md 4.8).
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "node/driver_manager/options.h"
#include "workload/drain.h"

namespace pitcrew::node::driver_manager {

// How the pods of a node are drained with these options.
workload::DrainOptions DrainOptionsOf(const Options& options);

// Of this node; `selector` chooses by labels, "" all.
base::Result<std::vector<codec::Json>> PodsOfNode(const Options& options, kube::Client& client,
                                                  const std::string& selector,
                                                  const io::StopToken& stop);

// Evicts all of these and waits until they are gone, options.drain_timeout at most.
base::Status EvictAll(const Options& options, const std::shared_ptr<kube::Client>& client,
                      const std::vector<workload::PodReference>& pods, const io::StopToken& stop);

enum class WithMachines { kNo, kYes };

// Evicts pods of this node that ask for GPUs or hold them by a claim, and those whose virtual
// machines have one, and waits until they are gone. Nothing is evicted when one of them
// may not be: kUnavailable "PodsNotEvictable".
base::Status EvictGpuPods(const Options& options, const std::shared_ptr<kube::Client>& client,
                          WithMachines machines, const io::StopToken& stop);
// The same for every pod that the options select, but those of DaemonSets.
base::Status DrainNode(const Options& options, const std::shared_ptr<kube::Client>& client,
                       const io::StopToken& stop);

// Whether an error of these two is about pods: they may not be evicted, the API server refused it,
// or they were not gone in time. Else the server could not be asked, and nothing is known of them.
bool IsAboutPods(const base::Error& error);

// kUnavailable "GpuClaimsHeld" names the pods on this node that still hold a GPU by a claim.
base::Status RefuseClaimHolders(const Options& options, kube::Client& client,
                                const io::StopToken& stop);

}  // namespace pitcrew::node::driver_manager
