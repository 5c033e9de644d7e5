// Facts that follow the nodes change by change are those of the nodes that there are
// (operator-behaviour.md section 4.1).
#include "desired/node_totals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "api/labels.h"
#include "desired/node_labels.h"

namespace pitcrew::desired {
namespace {

using Nodes = std::map<std::string, std::shared_ptr<const Node>>;

// A node of one of many kinds, few enough for them to meet.
std::shared_ptr<const Node> RandomNode(std::mt19937& random, const std::string& name) {
  const auto one_of = [&](std::initializer_list<const char*> values) {
    return *(values.begin() +
             std::uniform_int_distribution<std::ptrdiff_t>(0, std::ssize(values) - 1)(random));
  };
  Node node;
  node.name = name;
  const auto label = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) node.labels.Add(key, value);
  };
  label(api::kGpuPresent, one_of({"true", "true", "false", ""}));
  label(api::kPciVendorPresent, one_of({"true", "true", "false", ""}));
  label(api::kOsReleaseId, one_of({"ubuntu", "ubuntu", "ubuntu", "ubuntu", "rhel", ""}));
  label(api::kOsReleaseVersionId, one_of({"22.04", "22.04", "22.04", "24.04", ""}));
  label(api::kKernelVersionFull,
        one_of({"6.8.0-1", "6.8.0-2", "6.8.0-3", "6.8.0-4", "5.14.0", ""}));
  label(api::kOsTreeVersion, one_of({"", "", "416.94", "417.94"}));
  node.nfd_labels = one_of({"yes", "yes", "no"}) == std::string("yes");
  node.runtime =
      std::string_view(one_of({"containerd", "containerd", "cri-o", "docker", "other", ""}));
  return std::make_shared<const Node>(std::move(node));
}

std::string Text(const base::Result<OsRelease>& os) {
  return os ? os->id + " " + os->version_id : "error: " + os.error().message;
}

// All that nodes tell, for comparison.
std::string Text(const Facts& facts) {
  std::string text = std::string(facts.nfd_labels ? "nfd" : "no nfd") + "; " +
                     std::to_string(facts.gpu_nodes) + "+" +
                     std::to_string(facts.joining_gpu_nodes) + " GPU nodes; ";
  for (const auto& [runtime, count] : facts.runtimes) {
    text += std::string(ToString(runtime)) + ":" + std::to_string(count) + " ";
  }
  text += "; " + (facts.os ? Text(*facts.os) : "no OS") + "; ";
  if (facts.kernels) {
    for (const auto& [kernel, os] : *facts.kernels) text += kernel + " under " + Text(os) + ", ";
  } else {
    text += "error: " + facts.kernels.error().message;
  }
  for (const std::string& version : facts.rhcos_versions) text += "; " + version;
  return text;
}

// The definition, node by node in the order of names; as plain as can be.
std::string FromScratch(const Nodes& nodes) {
  Facts facts;
  std::set<std::string> rhcos;
  std::map<std::string, OsRelease> kernels;
  std::string problem;
  for (const auto& [name, node] : nodes) {
    const auto label = [&](std::string_view key) { return std::string(node->labels.Get(key)); };
    facts.nfd_labels = facts.nfd_labels || node->nfd_labels;
    if (const auto runtime = GpuRuntimeOf(*node)) ++facts.runtimes[*runtime];
    if (!node->gpu_present()) {
      facts.joining_gpu_nodes += node->has_gpu_pci_label() ? 1 : 0;
      continue;
    }
    ++facts.gpu_nodes;
    const OsRelease os{label(api::kOsReleaseId), label(api::kOsReleaseVersionId)};
    const std::string kernel = label(api::kKernelVersionFull);
    std::string os_problem;
    const auto unknown = [&](const char* what, std::string_view key) {
      os_problem = std::string(what) + " of GPU node " + name + " is unknown: label " +
                   std::string(key) + " is missing; is node feature discovery running there?";
    };
    if (os.version_id.empty()) unknown("OS version", api::kOsReleaseVersionId);
    if (os.id.empty()) unknown("OS name", api::kOsReleaseId);
    if (!facts.os || (!*facts.os && os_problem.empty())) {
      facts.os = os_problem.empty() ? base::Result<OsRelease>(os)
                                    : base::Fail(base::Invalid("OsLabelsMissing", os_problem));
    }
    if (const std::string version = label(api::kOsTreeVersion); !version.empty()) {
      rhcos.insert(version);
    }
    if (!problem.empty()) continue;
    if (kernel.empty()) {
      problem = "kernel of GPU node " + name + " is unknown: label " +
                std::string(api::kKernelVersionFull) + " is missing";
    } else if (!os_problem.empty()) {
      problem = os_problem;
    } else if (const OsRelease other = kernels.try_emplace(kernel, os).first->second; other != os) {
      problem = "kernel " + kernel + " runs under both " + other.full() + " and " + os.full() +
                ": precompiled drivers need one operating system per kernel";
    }
  }
  facts.rhcos_versions.assign(rhcos.begin(), rhcos.end());
  facts.kernels = kernels;
  if (!problem.empty()) facts.kernels = base::Fail(base::Invalid("KernelProblem", problem));
  return Text(facts);
}

// Nodes come, go, change and are replaced; after each event the totals are those of a count that
// begins anew, and the facts are the plain definition's.
TEST(NodeTotals, FollowEverySequenceOfEvents) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const unsigned names = seed % 3 == 0 ? 2 : seed % 3 == 1 ? 6 : 25;
    Nodes nodes;
    NodeTotals totals;
    for (int event = 0; event < 150; ++event) {
      const std::string name =
          "node-" + std::to_string(std::uniform_int_distribution<unsigned>(1, names)(random));
      const auto known = nodes.find(name);
      const auto before = known == nodes.end() ? nullptr : known->second;
      const bool goes = before != nullptr && random() % 3 == 0;
      const auto now = goes ? nullptr : RandomNode(random, name);
      if (before != nullptr) totals.Remove(*before);
      if (now != nullptr) totals.Add(*now);
      if (goes) {
        nodes.erase(known);
      } else {
        nodes[name] = now;
      }
      NodeTotals anew;
      std::size_t gpu_nodes = 0;
      std::size_t losing = 0;
      for (const auto& [_, node] : nodes) {
        anew.Add(*node);
        gpu_nodes += node->gpu_present() ? 1 : 0;
        losing += LosesGpu(*node) ? 1 : 0;
      }
      ASSERT_EQ(totals, anew) << "seed " << seed << ", event " << event;
      EXPECT_EQ(totals.gpu_nodes(), gpu_nodes);
      EXPECT_EQ(totals.losing(), losing);
      Facts facts;
      totals.Fill(facts);
      ASSERT_EQ(Text(facts), FromScratch(nodes)) << "seed " << seed << ", event " << event;
      EXPECT_EQ(totals.runtimes(), facts.runtimes);
    }
  }
}

// A pass over the policy follows only from what a node adds to the totals.
TEST(NodeTotals, NodesWithTheSameShareTellTheSame) {
  std::mt19937 random(7);
  int same = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto a = RandomNode(random, "node-1");
    const auto b = RandomNode(random, "node-1");
    NodeTotals of_a;
    of_a.Add(*a);
    NodeTotals of_b;
    of_b.Add(*b);
    EXPECT_EQ(ShareOf(*a) == ShareOf(*b), of_a == of_b);
    same += of_a == of_b ? 1 : 0;
  }
  EXPECT_GT(same, 50);
}

// The rest of the facts is not theirs.
TEST(NodeTotals, LeaveOtherFactsAlone) {
  Facts facts;
  facts.kubernetes_version = "v1.35.4";
  facts.service_monitors = true;
  facts.rhcos_versions = {"of before"};
  NodeTotals().Fill(facts);
  EXPECT_EQ(facts.kubernetes_version, "v1.35.4");
  EXPECT_TRUE(facts.service_monitors);
  EXPECT_TRUE(facts.rhcos_versions.empty());
}

}  // namespace
}  // namespace pitcrew::desired
