// Snapshots of a running cluster. Reads only.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"
#include "kube/resource.h"
#include "snapshot/snapshot.h"

namespace pitcrew::snapshot {

// Objects to read: of one kind, in one namespace (empty: all), with the selectors (empty: none); or
// only the one called `name`.
struct Query {
  kube::ResourceKind kind;
  std::string namespace_name = {};
  std::string name = {};
  std::string label_selector = {};
  std::string field_selector = {};
  // Of each object of a list, leaves out what nobody asks for; null: only what Trim does.
  void (*trim)(codec::Json& object) = nullptr;
};

// Reads in pages. A kind that the server does not serve is Coverage::kNotServed, one that cannot be
// read (forbidden) kUnknown with its error; only a server that does not answer at all, or a stop,
// is an error of the whole. Several queries may concern one kind; one that fails makes it unknown.
base::Result<Snapshot> ReadLive(kube::Client& client, std::span<const Query> queries,
                                const io::StopToken& stop = {});

// The same into a snapshot that exists: what is to be read depends on what was read.
base::Status ReadMore(kube::Client& client, std::span<const Query> queries, Snapshot& snapshot,
                      const io::StopToken& stop = {});

}  // namespace pitcrew::snapshot
