// Where the state of a cluster comes from: a file, or the API server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "fleet/cluster.h"
#include "fleet/report.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::doctor {

inline constexpr std::string_view kPolicyDefinition = "clusterpolicies.nvidia.com";

// The field selector of pods of one phase outside the operator's namespace, where all are read.
std::string WaitingPods(std::string_view phase, std::string_view name_space);

// Pods of users that the kubelet's warnings call failing, and that are not in `cluster` yet: the
// newest warnings first, 200 at most. Whether they ask for GPUs is not known of them.
std::vector<fleet::Key> FailingPods(const fleet::Cluster& cluster);

// One that waits for GPUs; others are not kept. An instance tells more than the machine that it is
// of.
void PutMachine(const fleet::Machine& machine, fleet::Cluster& cluster);

// Takes one object into `cluster`, by its kind; kinds of no use are ignored.
void Take(const codec::Json& object, fleet::Cluster& cluster);
// From a file, or from standard input for "-": what is not in it does not exist. `now` is the
// newest moment that any object names, so that a file tells the same at all times. `name_space` "":
// that of the pod of the operator. Documents `kind: PodLog` (metadata of the pod, `container`,
// `previous`, `text`) stand for logs. Nodes and Pods are taken one by one: the objects of a large
// fleet never stand in memory together.
base::Result<fleet::Cluster> FromFile(const std::string& path, std::string name_space);

// The operator's namespace: as asked for, else the policy's status, else gpu-operator.
std::string FindNamespace(kube::Client& client, const std::string& asked,
                          const io::StopToken& stop);

// How much of the kinds of which there are many: all of it, or the first object, which tells
// whether the kind can be read.
enum class Extent { kWhole, kFirst };

// Reads in pages and keeps little of each object. What cannot be read (RBAC) is in `unread`; only a
// server that does not answer at all is an error.
base::Result<fleet::Cluster> ReadLive(kube::Client& client, const std::string& name_space,
                                      const io::StopToken& stop, Extent extent = Extent::kWhole);
// Pods that were asked for and are not among those that ReadLive takes.
base::Status ReadPodsAsked(kube::Client& client, const fleet::Question& question,
                           fleet::Cluster& cluster, const io::StopToken& stop);
// Reads logs and features that a first look asked for, of at most a few dozen nodes.
base::Status ReadWanted(kube::Client& client, const fleet::Wanted& wanted, fleet::Cluster& cluster,
                        const io::StopToken& stop);

}  // namespace pitcrew::doctor
