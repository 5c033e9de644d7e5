#include "node/metrics_exporter/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "node/metrics_exporter/health.h"
#include "node/metrics_exporter/values.h"
#include "nvml/abi_metrics.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using nvml::Quantity;
using nvml::Question;
namespace field = nvml::abi::field;

// Ascending, each once: answers are found by binary search.
void Sort(std::vector<Question>& questions) {
  std::ranges::sort(questions);
  const auto twice = std::ranges::unique(questions);
  questions.erase(twice.begin(), twice.end());
}

void AddQuestions(const Field& asked, const std::optional<unsigned>& link,
                  std::vector<Question>& questions) {
  switch (asked.source.kind) {
    case Source::Kind::kQuestion:
    case Source::Kind::kLinkGpm:
      questions.push_back(QuestionFor(asked, link));
      break;
    case Source::Kind::kLinkRate: {
      const auto scope = link ? *link : asked.source.question.scope;
      if (asked.source.direction != Direction::kReceived) {
        questions.push_back(LinkCounterQuestion(Direction::kSent, scope));
      }
      if (asked.source.direction != Direction::kSent) {
        questions.push_back(LinkCounterQuestion(Direction::kReceived, scope));
      }
      break;
    }
    case Source::Kind::kUsedShare:
      questions.push_back({Quantity::kMemoryTotal});
      questions.push_back({Quantity::kMemoryUsed});
      questions.push_back({Quantity::kMemoryReserved});
      break;
    default:
      break;
  }
}

// What a GPU is asked for the metrics that are made of several readings.
void AddDerivedQuestions(Derived derived, const gpu::Inventory& inventory,
                         const gpu::Device& device, std::vector<Question>& questions) {
  if (derived == Derived::kClockEvents) questions.push_back({Quantity::kClockReasons});
  if (derived == Derived::kHealth) {
    const auto health = HealthQuestions();
    questions.insert(questions.end(), health.begin(), health.end());
  }
  if (derived != Derived::kPeerStatus) return;
  for (const auto& peer : inventory.devices) {
    if (peer.index == device.index || peer.fault) continue;
    questions.push_back({Quantity::kPeerLinkStatus, static_cast<std::uint16_t>(peer.index)});
  }
}

class Planner {
 public:
  Planner(const std::vector<Counter>& counters, const gpu::Inventory& inventory,
          const LinksUp& links, const PlanOptions& options)
      : counters_(counters), inventory_(inventory), links_(links), options_(options) {}

  Plan Make() {
    // Ids of instances count over all GPUs.
    unsigned instance_id = 0;
    for (std::size_t i = 0; i < inventory_.devices.size(); ++i) {
      const auto& device = inventory_.devices[i];
      const auto instances = InstancesOf(device);
      const unsigned first_id = instance_id;
      instance_id += static_cast<unsigned>(instances.size());
      if (device.fault || device.uuid.empty()) continue;
      AddGpu(i, instances, first_id);
    }
    // Links behind the GPUs.
    std::ranges::move(link_entities_, std::back_inserter(plan_.entities));
    return std::move(plan_);
  }

 private:
  // The first MIG device of each GPU instance.
  static std::vector<const gpu::MigDevice*> InstancesOf(const gpu::Device& device) {
    std::vector<const gpu::MigDevice*> instances;
    for (const auto& mig : device.mig_devices) {
      const bool known = std::ranges::any_of(
          instances, [&](const auto* one) { return one->gpu_instance_id == mig.gpu_instance_id; });
      if (!known) instances.push_back(&mig);
    }
    return instances;
  }

  void AddGpu(std::size_t position, const std::vector<const gpu::MigDevice*>& instances,
              unsigned first_id) {
    const auto& device = inventory_.devices[position];
    using Kind = DeviceSelection::Kind;
    const auto kind = options_.gpus.kind;
    const bool whole = kind == Kind::kWhole ? options_.gpus.Takes(device.index)
                                            : kind == Kind::kFlexible && instances.empty();
    const std::size_t set = plan_.questions.size();
    nvml::GpuQuestions questions{device.uuid, {nvml::Part{}}};
    const auto make = [&] {
      PlannedEntity planned;
      planned.entity = Describe(device);
      planned.gpu = position;
      planned.question_set = set;
      return planned;
    };
    const auto before = plan_.entities.size();
    if (whole) plan_.entities.push_back(make());
    if (kind == Kind::kParts || kind == Kind::kFlexible) {
      for (std::size_t i = 0; i < instances.size(); ++i) {
        if (!options_.gpus.Takes(first_id + static_cast<unsigned>(i))) continue;
        auto planned = make();
        AddInstance(*instances[i], planned, questions);
        plan_.entities.push_back(std::move(planned));
      }
    }
    AddLinks(device, make);
    if (plan_.entities.size() == before && LinksOf(device).empty()) return;
    Ask(device, questions);
    plan_.questions.push_back(std::move(questions));
  }

  [[nodiscard]] Entity Describe(const gpu::Device& device) const {
    Entity entity;
    entity.number = std::to_string(device.index);
    entity.uuid = device.uuid;
    entity.pci_bus_id = device.pci.BusId();
    entity.device = "nvidia" + entity.number;
    entity.model = options_.replace_blanks ? ReplaceBlanks(device.name) : device.name;
    return entity;
  }

  void AddInstance(const gpu::MigDevice& instance, PlannedEntity& planned,
                   nvml::GpuQuestions& questions) const {
    planned.instance = &instance;
    // The GPU instance's own profile: that of a compute instance which fills it.
    auto profile = instance.profile;
    profile.compute_slices = profile.gpu_slices;
    planned.entity.profile = profile.Name();
    planned.entity.gpu_instance = std::to_string(instance.gpu_instance_id);
    planned.part = questions.parts.size();
    nvml::Part part;
    part.gpu_instance = instance.gpu_instance_id;
    part.mig_uuid = instance.uuid;
    part.processes = options_.processes;
    for (const auto& counter : counters_) {
      if (counter.field == nullptr || counter.field->level != Level::kInstance) continue;
      AddQuestions(*counter.field, std::nullopt, part.questions);
    }
    Sort(part.questions);
    questions.parts.push_back(std::move(part));
  }

  [[nodiscard]] std::vector<unsigned> LinksOf(const gpu::Device& device) const {
    if (options_.switches.kind == DeviceSelection::Kind::kWhole) return {};
    const auto found = links_.find(device.uuid);
    if (found == links_.end()) return {};
    std::vector<unsigned> links = found->second;
    std::erase_if(links, [&](unsigned link) { return !options_.switches.Takes(link); });
    return links;
  }

  template <class Make>
  void AddLinks(const gpu::Device& device, Make make) {
    for (const unsigned link : LinksOf(device)) {
      auto planned = make();
      planned.entity.group = Group::kLink;
      planned.entity.link = std::to_string(link);
      planned.link = link;
      link_entities_.push_back(std::move(planned));
    }
  }

  void Ask(const gpu::Device& device, nvml::GpuQuestions& questions) const {
    auto& whole = questions.parts.front();
    whole.processes = options_.processes;
    for (const auto& counter : counters_) {
      if (counter.field == nullptr) {
        AddDerivedQuestions(counter.derived, inventory_, device, whole.questions);
      } else if (counter.field->level == Level::kLink) {
        for (const unsigned link : LinksOf(device)) {
          AddQuestions(*counter.field, link, whole.questions);
        }
      } else {
        AddQuestions(*counter.field, std::nullopt, whole.questions);
      }
    }
    Sort(whole.questions);
  }

  const std::vector<Counter>& counters_;
  const gpu::Inventory& inventory_;
  const LinksUp& links_;
  const PlanOptions& options_;
  Plan plan_;
  std::vector<PlannedEntity> link_entities_;
};

}  // namespace

Question LinkCounterQuestion(Direction direction, std::uint32_t link) {
  const auto number = direction == Direction::kSent ? field::kNvLinkThroughputDataTx
                                                    : field::kNvLinkThroughputDataRx;
  return {Quantity::kField, static_cast<std::uint16_t>(number), link};
}

Question QuestionFor(const Field& asked, const std::optional<unsigned>& link) {
  if (asked.source.kind == Source::Kind::kLinkGpm) {
    // metrics-exporter.md 9.2: links from 18 on have numbers of their own.
    constexpr unsigned kFirstLinks = 18;
    constexpr unsigned kLaterLinks = 212;
    const unsigned number = link.value_or(0);
    const unsigned received = number < kFirstLinks ? nvml::abi::gpm::kNvLinkL0RxPerSec + 2 * number
                                                   : kLaterLinks + 2 * (number - kFirstLinks);
    const unsigned metric = asked.source.direction == Direction::kSent ? received + 1 : received;
    return {Quantity::kGpm, static_cast<std::uint16_t>(metric)};
  }
  Question question = asked.source.question;
  if (link && question.scope == kOwnLink) question.scope = *link;
  return question;
}

bool AsksForLinks(const std::vector<Counter>& counters) {
  return std::ranges::any_of(counters, [](const Counter& counter) {
    return counter.field != nullptr && counter.field->level == Level::kLink &&
           counter.field->source.kind != Source::Kind::kNothing;
  });
}

base::Status CheckSelection(const DeviceSelection& selection, const gpu::Inventory& inventory) {
  std::size_t count = 0;
  const bool parts = selection.kind == DeviceSelection::Kind::kParts;
  for (const auto& device : inventory.devices) {
    std::set<unsigned> instances;
    for (const auto& mig : device.mig_devices) instances.insert(mig.gpu_instance_id);
    count += parts ? instances.size() : 1;
  }
  for (const unsigned id : selection.ids) {
    if (id < count) continue;
    return base::Fail(base::Invalid(
        "NoSuchDevice", fmt::format("there is no {} {} on this node: it has {}, counted from 0",
                                    parts ? "MIG instance" : "GPU", id, count)));
  }
  return {};
}

Plan MakePlan(const std::vector<Counter>& counters, const gpu::Inventory& inventory,
              const LinksUp& links, const PlanOptions& options) {
  return Planner(counters, inventory, links, options).Make();
}

}  // namespace pitcrew::node::metrics_exporter
