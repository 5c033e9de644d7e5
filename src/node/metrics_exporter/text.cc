#include "node/metrics_exporter/text.h"

#include <algorithm>
#include <string_view>

#include "base/strings.h"

namespace pitcrew::node::metrics_exporter {
namespace {

void AppendEscaped(std::string& text, std::string_view value) {
  for (const char c : value) {
    if (c == '\\') {
      text += "\\\\";
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '"') {
      text += "\\\"";
    } else {
      text += c;
    }
  }
}

// Labels of one series, in their order.
class LabelWriter {
 public:
  void Add(std::string_view name, std::string_view value) {
    if (!text_.empty()) text_ += ',';
    text_ += name;
    text_ += "=\"";
    AppendEscaped(text_, value);
    text_ += '"';
  }
  void AddIfThere(std::string_view name, std::string_view value) {
    if (!value.empty()) Add(name, value);
  }
  [[nodiscard]] std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddInstance(LabelWriter& labels, const Entity& entity) {
  if (entity.profile.empty()) return;
  labels.Add("GPU_I_PROFILE", entity.profile);
  labels.Add("GPU_I_ID", entity.gpu_instance);
}

std::string FixedLabels(const Entity& entity, const TextOptions& options) {
  LabelWriter labels;
  switch (entity.group) {
    case Group::kGpu:
      labels.Add("gpu", entity.number);
      labels.Add(options.old_namespace ? "uuid" : "UUID", entity.uuid);
      labels.Add("pci_bus_id", entity.pci_bus_id);
      labels.Add("device", entity.device);
      labels.Add("modelName", entity.model);
      AddInstance(labels, entity);
      break;
    case Group::kLink:
      labels.Add("nvlink", entity.link);
      labels.AddIfThere("nvswitch", entity.parent_switch);
      labels.AddIfThere("gpu", entity.number);
      labels.AddIfThere("gpu_uuid", entity.uuid);
      labels.AddIfThere("pci_bus_id", entity.pci_bus_id);
      labels.AddIfThere("device", entity.device);
      labels.AddIfThere("model_name", entity.model);
      AddInstance(labels, entity);
      break;
    case Group::kSwitch:
      labels.Add("nvswitch", entity.number);
      break;
    case Group::kCpu:
      labels.Add("cpu", entity.number);
      break;
    case Group::kCpuCore:
      labels.Add("cpucore", entity.number);
      labels.Add("cpu", entity.device);
      break;
  }
  labels.AddIfThere(options.hostname_label, options.hostname);
  return labels.Take();
}

// The part of labels that are counters or come from pods, then the attributes: each by name, and a
// name once. An attribute wins over a label.
std::string OtherLabels(const Attributes& info, const Attributes& pod_labels, const Attributes& own,
                        const Attributes& of_pod) {
  std::map<std::string_view, std::string_view> attributes;
  for (const auto* some : {&own, &of_pod}) {
    for (const auto& [name, value] : *some) {
      if (!value.empty()) attributes.emplace(name, value);
    }
  }
  std::map<std::string_view, std::string_view> named;
  for (const auto* some : {&info, &pod_labels}) {
    for (const auto& [name, value] : *some) {
      if (!attributes.contains(name)) named.emplace(name, value);
    }
  }
  LabelWriter labels;
  for (const auto& [name, value] : named) labels.Add(name, value);
  for (const auto& [name, value] : attributes) labels.Add(name, value);
  return labels.Take();
}

// Entities whose series carry the same labels but for their own attributes.
struct Prepared {
  std::string fixed;
  std::string alone;                // without an owner
  std::vector<std::string> of_pod;  // with each owner
};

class Writer {
 public:
  Writer(const Round& round, const OwnersOf& owners, const TextOptions& options)
      : round_(round), owners_(owners) {
    prepared_.reserve(round.entities.size());
    for (std::size_t i = 0; i < round.entities.size(); ++i) {
      const auto& entity = round.entities[i];
      Prepared ready{FixedLabels(entity, options), OtherLabels(entity.info, {}, {}, {}), {}};
      for (const auto& owner : OwnersAt(i).of) {
        ready.of_pod.push_back(OtherLabels(entity.info, owner.labels, {}, owner.attributes));
      }
      prepared_.push_back(std::move(ready));
    }
  }

  std::string Write() {
    std::size_t samples = 0;
    for (const auto& family : round_.families) samples += family.samples.size();
    constexpr std::size_t kUsualLine = 320;
    text_.reserve(samples * kUsualLine);
    for (const auto& family : round_.families) WriteFamily(family);
    return std::move(text_);
  }

 private:
  [[nodiscard]] const Owners& OwnersAt(std::size_t entity) const {
    static const Owners kNone;
    return entity < owners_.size() ? owners_[entity] : kNone;
  }

  void WriteFamily(const Family& family) {
    const auto& counter = family.counter;
    if (family.samples.empty()) {
      text_ += "# " + counter.name + " has no value: " + family.silence + "\n";
      return;
    }
    text_ += "# HELP " + counter.name + " ";
    const auto help = base::ReplaceAll(base::ReplaceAll(counter.help, "\\", "\\\\"), "\n", "\\n");
    text_ += help + "\n# TYPE " + counter.name + " " + counter.type + "\n";
    for (const auto& sample : family.samples) WriteSample(counter, sample);
  }

  void WriteSample(const Counter& counter, const Sample& sample) {
    const auto& owners = OwnersAt(sample.entity);
    const auto& ready = prepared_[sample.entity];
    const auto& entity = round_.entities[sample.entity];
    const bool also_device =
        std::ranges::find(owners.also_device, counter.name) != owners.also_device.end();
    if (owners.of.empty() || also_device) {
      Line(counter, ready.fixed,
           sample.attributes.empty() ? ready.alone
                                     : OtherLabels(entity.info, {}, sample.attributes, {}),
           sample.value);
    }
    for (std::size_t i = 0; i < owners.of.size(); ++i) {
      const auto& owner = owners.of[i];
      const auto own = owner.values.find(counter.name);
      Line(counter, ready.fixed,
           sample.attributes.empty()
               ? ready.of_pod[i]
               : OtherLabels(entity.info, owner.labels, sample.attributes, owner.attributes),
           own != owner.values.end() ? own->second : sample.value);
    }
  }

  void Line(const Counter& counter, std::string_view fixed, std::string_view others,
            std::string_view value) {
    text_ += counter.name;
    text_ += '{';
    text_ += fixed;
    if (!others.empty()) text_ += ',';
    text_ += others;
    text_ += "} ";
    text_ += value;
    text_ += '\n';
  }

  const Round& round_;
  const OwnersOf& owners_;
  std::vector<Prepared> prepared_;
  std::string text_;
};

}  // namespace

std::string ToText(const Round& round, const OwnersOf& owners, const TextOptions& options) {
  return Writer(round, owners, options).Write();
}

}  // namespace pitcrew::node::metrics_exporter
