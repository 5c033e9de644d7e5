#include "node/feature_discovery/resource_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/labels.h"

namespace pitcrew::node::feature_discovery {
namespace {

// Longest label value, and what a shared resource's product name ends with.
constexpr std::size_t kLongestValue = 63;
constexpr std::string_view kSharedSuffix = "-SHARED";

// The architecture's name by compute capability (section 4.2).
std::string_view FamilyOf(gpu::ComputeCapability capability) {
  switch (capability.major) {
    case 1:
      return "tesla";
    case 2:
      return "fermi";
    case 3:
      return "kepler";
    case 5:
      return "maxwell";
    case 6:
      return "pascal";
    case 7:
      return capability.minor < 5 ? "volta" : "turing";
    case 8:
      return capability.minor < 9 ? "ampere" : "ada-lovelace";
    case 9:
      return "hopper";
    case 10:
    case 12:
      return "blackwell";
    case 13:
      return "rubin";
    default:
      return "undefined";
  }
}

// Writes the labels of one resource.
class ResourceLabels {
 public:
  ResourceLabels(std::string resource, Labels& labels)
      : resource_(std::move(resource)), labels_(labels) {}

  void Set(std::string_view name, std::string value) {
    labels_[fmt::format("{}.{}", resource_, name)] = std::move(value);
  }
  void Set(std::string_view name, std::uint64_t value) { Set(name, std::to_string(value)); }

  // Product, count and how it is shared (section 4.4).
  void SetShared(std::string product, std::uint64_t count, const api::Sharing& sharing) {
    const auto* replicated = sharing.replicated();
    const auto* shared = replicated == nullptr ? nullptr : replicated->Find(resource_);
    if (shared != nullptr && shared->rename.empty()) {
      product.resize(std::min(product.size(), kLongestValue - kSharedSuffix.size()));
      product += kSharedSuffix;
    }
    Set("product", std::move(product));
    Set("count", count);
    Set("replicas", shared == nullptr ? 1 : static_cast<std::uint64_t>(shared->replicas));
    Set("sharing-strategy",
        std::string(
            api::ToString(shared == nullptr ? api::SharingStrategy::kNone : sharing.strategy())));
  }

  // A GPU that is divided is not offered itself.
  void SetNotShared(std::string product, std::uint64_t count) {
    Set("product", std::move(product));
    Set("count", count);
    Set("replicas", 0);
    Set("sharing-strategy", std::string(api::ToString(api::SharingStrategy::kNone)));
  }

 private:
  const std::string resource_;
  Labels& labels_;
};

class Describer {
 public:
  Describer(const gpu::Inventory& gpus, std::size_t unreadable, const api::Sharing& sharing,
            Description& description)
      : gpus_(gpus), unreadable_(unreadable), sharing_(sharing), description_(description) {}

  // Divided GPUs first, then whole ones, which have the last word. Of several models the one of the
  // GPU with the lowest index wins.
  void AddWholeGpus() {
    std::set<std::string> models;
    for (const auto& device : gpus_.devices) models.insert(device.name);
    if (models.size() > 1) {
      description_.warnings.push_back(
          fmt::format("the node has GPUs of several models ({}): the labels describe one of them",
                      fmt::join(models, ", ")));
    }
    const bool counted = models.size() == 1;
    if (unreadable_ > 0) {
      description_.warnings.push_back(fmt::format("{} GPUs of the node cannot be read: they are {}",
                                                  unreadable_,
                                                  counted ? "counted as of the model of the others"
                                                          : "not counted, as their model is "
                                                            "unknown"));
    }
    if (!counted) unreadable_ = 0;
    for (const bool divided : {true, false}) {
      for (auto device = gpus_.devices.rbegin(); device != gpus_.devices.rend(); ++device) {
        if (device->IsMigEnabled() == divided) AddModel(*device);
      }
    }
  }

  void AddSingle() {
    if (!HasDivided()) return;
    auto labels = ResourceLabels(std::string(api::kGpuResource), description_.labels);
    const auto parts = PartsByProfile();
    const bool all_alike = std::ranges::all_of(gpus_.devices, [](const gpu::Device& device) {
      return device.IsMigEnabled() && !device.mig_devices.empty();
    });
    if (all_alike && parts.size() == 1) {
      return AddParts(parts.begin()->second, std::string(api::kGpuResource));
    }
    description_.warnings.emplace_back(
        "the GPUs are not divided alike, which the MIG strategy single needs: they count as none");
    const auto first = std::ranges::find_if(
        gpus_.devices, [](const gpu::Device& device) { return device.IsMigEnabled(); });
    labels.Set("product", Sanitise(first->name) + "-MIG-INVALID");
    labels.Set("count", 0);
    labels.Set("replicas", 0);
    labels.Set("sharing-strategy", std::string());
    labels.Set("memory", 0);
  }

  void AddMixed() {
    for (const auto& [profile, parts] : PartsByProfile()) {
      AddParts(parts, gpu::MigResourceName(parts.front().device->profile));
    }
  }

 private:
  struct Part {
    const gpu::Device* parent;
    const gpu::MigDevice* device;
  };

  [[nodiscard]] bool HasDivided() const {
    return std::ranges::any_of(gpus_.devices,
                               [](const gpu::Device& device) { return device.IsMigEnabled(); });
  }

  // In the order of the GPUs.
  [[nodiscard]] std::map<std::string, std::vector<Part>> PartsByProfile() const {
    std::map<std::string, std::vector<Part>> parts;
    for (const auto& device : gpus_.devices) {
      if (!device.IsMigEnabled()) continue;
      for (const auto& part : device.mig_devices)
        parts[part.profile.Name()].push_back({&device, &part});
    }
    return parts;
  }

  void AddModel(const gpu::Device& device) {
    ResourceLabels labels(std::string(api::kGpuResource), description_.labels);
    const auto count = static_cast<std::uint64_t>(
                           std::ranges::count(gpus_.devices, device.name, &gpu::Device::name)) +
                       unreadable_;
    if (device.IsMigEnabled()) {
      labels.SetNotShared(Sanitise(device.name), count);
    } else {
      labels.SetShared(Sanitise(device.name), count, sharing_);
    }
    const auto* memory = device.memory.value();
    const std::uint64_t mebibytes = memory == nullptr ? 0 : memory->total >> 20U;
    if (mebibytes != 0) labels.Set("memory", mebibytes);
    const auto capability = device.compute_capability;
    if (capability.major == 0) return;
    labels.Set("family", std::string(FamilyOf(capability)));
    labels.Set("compute.major", std::to_string(capability.major));
    labels.Set("compute.minor", std::to_string(capability.minor));
  }

  void AddParts(const std::vector<Part>& parts, const std::string& resource) {
    const auto& first = parts.front();
    const auto& attributes = first.device->attributes;
    ResourceLabels labels(resource, description_.labels);
    labels.SetShared(fmt::format("{}-MIG-{}", Sanitise(first.parent->name),
                                 Sanitise(first.device->profile.ResourceSuffix())),
                     parts.size(), sharing_);
    labels.Set("memory", attributes.memory_mib);
    labels.Set("multiprocessors", attributes.multiprocessor_count);
    labels.Set("slices.gi", attributes.gpu_instance_slice_count);
    labels.Set("slices.ci", attributes.compute_instance_slice_count);
    labels.Set("engines.copy", attributes.shared_copy_engine_count);
    labels.Set("engines.decoder", attributes.shared_decoder_count);
    labels.Set("engines.encoder", attributes.shared_encoder_count);
    labels.Set("engines.jpeg", attributes.shared_jpeg_count);
    labels.Set("engines.ofa", attributes.shared_ofa_count);
  }

  const gpu::Inventory& gpus_;
  std::size_t unreadable_;
  const api::Sharing& sharing_;
  Description& description_;
};

}  // namespace

void AddResourceLabels(const gpu::Inventory& gpus, std::size_t unreadable_gpus,
                       gpu::MigStrategy strategy, const api::Sharing& sharing,
                       Description& description) {
  Describer describer(gpus, unreadable_gpus, sharing, description);
  describer.AddWholeGpus();
  if (strategy == gpu::MigStrategy::kNone) return;
  description.labels["nvidia.com/mig.strategy"] = std::string(gpu::ToString(strategy));
  if (strategy == gpu::MigStrategy::kSingle) {
    describer.AddSingle();
  } else {
    describer.AddMixed();
  }
}

}  // namespace pitcrew::node::feature_discovery
