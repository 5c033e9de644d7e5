#include "plan/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "api/labels.h"
#include "api/nvidia_driver.h"
#include "base/strings.h"
#include "codec/yaml.h"
#include "plan/cluster.h"
#include "plan/departing_pods.h"
#include "plan/drivers.h"
#include "plan/permitted_devices.h"
#include "snapshot/connection.h"
#include "snapshot/file.h"
#include "snapshot/live.h"

namespace pitcrew::plan {
namespace {

using codec::Json;
using snapshot::Snapshot;

// ARCHITECTURE.md, "Commands": 2 is wrong usage or input in every command.
constexpr int kNoChange = 0;
constexpr int kFailure = 1;
constexpr int kWrongInput = 2;
constexpr int kChanges = 3;

// What is wanted: what stands in the file that -f names.
struct Wanted {
  Json policy;                // null: the active one of the cluster
  std::vector<Json> drivers;  // NVIDIADrivers, in the place of those of the same names
};

// At most one ClusterPolicy, and any number of NVIDIADrivers; other objects beside them are an
// error, because nobody knows then what is meant.
base::Result<Wanted> ReadWantedFile(const std::string& path) {
  TRY_ASSIGN(const std::string text, snapshot::ReadInput(path));
  const std::string source = snapshot::NameOfInput(path);
  TRY_ASSIGN(auto documents, codec::ParseYamlStream(text, source));
  Wanted wanted;
  int policies = 0;
  for (Json& document : documents) {
    if (codec::FindString(document, {"kind"}) == api::kNvidiaDriverKind) {
      if (const auto read = api::ReadNvidiaDriver(document); !read) {
        return base::Fail(read.error().Within(source));
      }
      wanted.drivers.push_back(std::move(document));
      continue;
    }
    if (const auto read = api::ReadClusterPolicy(document); !read) {
      return base::Fail(read.error().Within(source));
    }
    ++policies;
    wanted.policy = std::move(document);
  }
  if (policies > 1 || documents.empty()) {
    return base::Fail(base::Invalid(
        "NotAClusterPolicy",
        fmt::format("{}: one ClusterPolicy is expected, and NVIDIADrivers beside or in place of "
                    "it; found {} documents",
                    source, documents.size())));
  }
  return wanted;
}

// The policy to plan for, and the cluster with all that concerns it.
struct Inputs {
  std::shared_ptr<kube::Client> client;  // null: the cluster is a file
  Snapshot snapshot;
  Json policy;                // null for an uninstall
  std::vector<Json> drivers;  // that are given
};

base::Result<Json> ActivePolicyOf(const Snapshot& snapshot) {
  TRY_ASSIGN(const Json* active, ActivePolicy(snapshot));
  if (active != nullptr) return *active;
  return base::Fail(base::Invalid(
      "NoClusterPolicy",
      fmt::format("{}: there is no ClusterPolicy; give one with -f", snapshot.origin())));
}

// Leaves out what no plan looks at and a fleet has most of.
base::Status AddIfOfUse(Json object, Snapshot& snapshot) {
  TRY(snapshot::CheckIdentity(object));
  const snapshot::KindName kind = snapshot::KindNameOf(object);
  if (kind == snapshot::KindNameOf(kube::kEvents)) return {};
  if (kind == snapshot::KindNameOf(kube::kPods)) TrimPod(object);
  return snapshot.Add(std::move(object));
}

base::Result<Snapshot> ReadClusterFile(const std::string& path) {
  Snapshot snapshot(snapshot::NameOfInput(path), /*complete=*/true);
  TRY(snapshot::VisitFile(path,
                          [&](Json object) { return AddIfOfUse(std::move(object), snapshot); }));
  return snapshot;
}

base::Result<Inputs> ReadInputs(const Arguments& arguments, const io::StopToken& stop) {
  Wanted wanted;
  if (!arguments.policy_file.empty()) {
    TRY_ASSIGN(wanted, ReadWantedFile(arguments.policy_file));
  }
  Json& policy = wanted.policy;
  if (!arguments.live) {
    TRY_ASSIGN(Snapshot snapshot, ReadClusterFile(arguments.cluster_file));
    if (policy.is_null() && !arguments.uninstall) {
      TRY_ASSIGN(policy, ActivePolicyOf(snapshot));
    }
    return Inputs{nullptr, std::move(snapshot), std::move(policy), std::move(wanted.drivers)};
  }
  const std::string& name_space = arguments.options.operator_namespace;
  TRY_ASSIGN(const auto client, snapshot::Connect(arguments.connection));
  TRY_ASSIGN(Snapshot snapshot, snapshot::ReadLive(*client, QueriesOfCluster(name_space), stop));
  if (arguments.uninstall || arguments.options.permit) {
    TRY(snapshot::ReadMore(*client, QueriesOfPermittedDevices(snapshot), snapshot, stop));
  }
  if (arguments.uninstall) return Inputs{client, std::move(snapshot), {}, {}};
  if (policy.is_null()) {
    TRY_ASSIGN(policy, ActivePolicyOf(snapshot));
  }
  TRY_ASSIGN(const auto read, api::ReadClusterPolicy(policy));
  TRY(snapshot::ReadMore(*client, QueriesOfPolicy(read, name_space), snapshot, stop));
  TRY(snapshot::ReadMore(*client, QueriesOfDrivers(snapshot, wanted.drivers, name_space), snapshot,
                         stop));
  return Inputs{client, std::move(snapshot), std::move(policy), std::move(wanted.drivers)};
}

// "Node", "node/gpu-1": kinds without regard to case, as people type them.
bool IsWanted(const std::string& kind, const std::string& name,
              const std::vector<std::string>& only) {
  return only.empty() || std::ranges::any_of(only, [&](const std::string& word) {
           const auto slash = word.find('/');
           if (base::ToLower(word.substr(0, slash)) != base::ToLower(kind)) return false;
           return slash == std::string::npos || word.substr(slash + 1) == name;
         });
}

void KeepWanted(const std::vector<std::string>& only, Plan& plan) {
  std::erase_if(plan.items,
                [&](const Item& item) { return !IsWanted(item.kind(), item.name(), only); });
  for (DriverUpgrade& upgrade : plan.upgrades) {
    std::erase_if(upgrade.nodes,
                  [&](const NodeUpgrade& node) { return !IsWanted("Node", node.node, only); });
  }
  std::erase_if(plan.upgrades, [](const DriverUpgrade& upgrade) { return upgrade.nodes.empty(); });
}

std::string Print(const Plan& plan, const Arguments& arguments) {
  switch (arguments.format) {
    case Format::kYaml:
      return ToYaml(plan, arguments.uninstall);
    case Format::kJson:
      return ToJson(plan, arguments.uninstall);
    case Format::kTable:
      return ToTable(plan);
    case Format::kDiff:
      return ToDiff(plan);
  }
  return "";
}

base::Result<Plan> PlanFor(const Arguments& arguments, const io::StopToken& stop) {
  TRY_ASSIGN(Inputs inputs, ReadInputs(arguments, stop));
  if (arguments.uninstall) return MakeUninstallPlan(inputs.snapshot);
  TRY_ASSIGN(Plan plan,
             MakePlan(inputs.snapshot, inputs.policy, arguments.options, inputs.drivers));
  if (inputs.client != nullptr) {
    TRY(ReadDepartingPods(*inputs.client, plan, inputs.snapshot, stop));
  }
  AddDepartingPods(inputs.snapshot, plan);
  return plan;
}

int StatusOf(const Plan& plan) {
  if (std::ranges::any_of(plan.problems, &Problem::unread)) return kFailure;
  if (!plan.problems.empty()) return kWrongInput;
  return plan.has_changes() ? kChanges : kNoChange;
}

}  // namespace

Answer Run(const Arguments& arguments, const io::StopToken& stop) {
  auto plan = PlanFor(arguments, stop);
  if (!plan) {
    const int status = plan.error().code == base::Code::kInvalid ? kWrongInput : kFailure;
    return {.status = status, .output = {}, .errors = "error: " + plan.error().message + "\n"};
  }
  Answer answer;
  KeepWanted(arguments.only, *plan);
  answer.output = Print(*plan, arguments);
  for (const std::string& note : plan->notes) answer.errors += fmt::format("note: {}\n", note);
  for (const Problem& problem : plan->problems) {
    const std::string where = problem.where.empty() ? "" : problem.where + ": ";
    const std::string operands =
        problem.operands.empty() ? "" : fmt::format(" ({})", base::Join(problem.operands, ", "));
    answer.errors += fmt::format("error: {}{}{}\n", where, problem.message, operands);
  }
  answer.status = StatusOf(*plan);
  return answer;
}

}  // namespace pitcrew::plan
