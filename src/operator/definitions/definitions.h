// The CustomResourceDefinitions that this program brings along: how far what a cluster serves is
// behind or ahead of them, and installing them.
//
// There is no version to go by: Helm installs definitions once and never again, people apply them
// by hand, and upstream's carry none. What matters is whether a field of a policy would be dropped
// in silence, so the schemas themselves are compared.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::gpu_operator {

// Set on a definition right before it is deleted on purpose, so that an operator that still runs
// does not bring it back.
inline constexpr std::string_view kRemovedAnnotation = "nvidia.com/gpu-operator.removed";

enum class SchemaState {
  kSame,      // but for descriptions
  kOlder,     // it lacks fields that ours has, or only rules differ: ours may replace it
  kNewer,     // it has all fields of ours and more: a newer release's, never replaced
  kDiverged,  // each has fields that the other lacks: replacing it would lose some
};

struct SchemaComparison {
  SchemaState state = SchemaState::kSame;
  std::vector<std::string>
      missing;  // "spec.gds.env": what the served one lacks, topmost fields only

  bool operator==(const SchemaComparison&) const = default;
};
// Both are CustomResourceDefinitions; versions are compared by name.
SchemaComparison CompareDefinitions(const codec::Json& served, const codec::Json& ours);

// What a person has to know when policies cannot say all that this program understands; "" when
// they can.
std::string DescribeOutdated(std::string_view name, const SchemaComparison& comparison);

// The embedded definitions, parsed. Errors cannot happen: a test parses them.
base::Result<std::vector<codec::Json>> OwnDefinitions();

enum class DefinitionChange { kNone, kInstalled, kUpgraded, kLeftNewer, kLeftDiverged };
std::string_view ToString(DefinitionChange change);

struct DefinitionOptions {
  // Replaces also a newer or diverged one.
  bool force = false;
  bool replace_diverged = false;
};
// Installs `definition`, or upgrades the one that stands, with server-side apply.
base::Result<DefinitionChange> EnsureDefinition(kube::Client& client, const codec::Json& definition,
                                                const DefinitionOptions& options,
                                                const io::StopToken& stop);
// Until it is served; kTimeout at the deadline.
base::Status AwaitEstablished(const std::shared_ptr<kube::Client>& client, const std::string& name,
                              std::chrono::milliseconds timeout, const io::StopToken& stop);
// Deletes it with all its objects, for good (kRemovedAnnotation). Whether it is gone within
// `patience`: finalizers of its objects hold it as long as they stand. True when there is none.
base::Result<bool> RemoveDefinition(const std::shared_ptr<kube::Client>& client,
                                    const std::string& name, std::chrono::milliseconds patience,
                                    const io::StopToken& stop);

}  // namespace pitcrew::gpu_operator
