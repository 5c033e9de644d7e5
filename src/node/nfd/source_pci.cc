#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/file.h"
#include "base/strings.h"
#include "host/pci.h"
#include "host/root.h"
#include "node/nfd/sources.h"

namespace pitcrew::node::nfd {
namespace {

// The attributes that labels can be made of, in the order in which they are joined.
constexpr std::array<std::string_view, 5> kLabelFields = {"class", "vendor", "device",
                                                          "subsystem_vendor", "subsystem_device"};

// A part of the tree that not every device has.
base::Status ReadOptional(const std::filesystem::path& folder, const char* file,
                          Attributes& attributes) {
  const auto text = base::ReadFile(folder / file);
  if (text) {
    attributes[file] = base::Trim(*text);
    return {};
  }
  if (text.error().code == base::Code::kNotFound) return {};
  return base::Fail(text.error());
}

// kNotFound when a mandatory attribute is missing: such a device is not published.
base::Result<Attributes> ReadAttributes(const host::PciDevice& device) {
  for (const auto* optional : {&device.subsystem_vendor, &device.subsystem_device}) {
    if (optional->is_unknown()) return base::Fail(*optional->error());
    if (optional->is_absent()) {
      return base::Fail(base::NotFound(
          "IncompletePciDevice",
          fmt::format("{} has no subsystem_vendor or no subsystem_device; it is not published",
                      device.folder.string())));
    }
  }
  Attributes attributes = {
      {"class", fmt::format("{:04x}", device.base_class())},
      {"vendor", fmt::format("{:04x}", device.vendor)},
      {"device", fmt::format("{:04x}", device.device)},
      {"subsystem_vendor", fmt::format("{:04x}", *device.subsystem_vendor.value())},
      {"subsystem_device", fmt::format("{:04x}", *device.subsystem_device.value())},
  };
  for (const auto* file : {"sriov_totalvfs", "iommu_group/type", "iommu/intel-iommu/version"}) {
    TRY(ReadOptional(device.folder, file, attributes));
  }
  return attributes;
}

std::vector<std::string> LabelFields(const PciConfig& config) {
  std::vector<std::string> fields;
  for (const auto field : kLabelFields) {
    if (std::ranges::find(config.device_label_fields, field) != config.device_label_fields.end()) {
      fields.emplace_back(field);
    }
  }
  if (fields.empty()) fields = {"class", "vendor"};
  return fields;
}

bool InWhitelist(const PciConfig& config, std::string_view device_class) {
  return std::ranges::any_of(config.device_class_whitelist, [&](const std::string& prefix) {
    return device_class.starts_with(base::ToLower(prefix));
  });
}

}  // namespace

base::Result<Discovery> DiscoverPci(const HostPaths& paths, const PciConfig& config) {
  const auto folder = paths.sys / "bus/pci/devices";
  TRY_ASSIGN(const auto scan, host::ReadPciDevices(folder));
  Discovery found;
  for (const auto& failure : scan.failures) {
    // A missing attribute is a fact about that device; anything else hides what the device is.
    if (failure.code != base::Code::kNotFound) return base::Fail(failure);
    found.left_out.push_back(failure);
  }
  auto& instances = found.features.instances["pci.device"];
  const auto fields = LabelFields(config);
  for (const auto& device : scan.devices) {
    auto attributes = ReadAttributes(device);
    if (!attributes) {
      if (attributes.error().code != base::Code::kNotFound) return base::Fail(attributes.error());
      found.left_out.push_back(std::move(attributes).error());
      continue;
    }
    if (InWhitelist(config, attributes->at("class"))) {
      std::vector<std::string> values;
      for (const auto& field : fields) values.push_back(attributes->at(field));
      const auto name = base::Join(values, "_");
      found.labels[name + ".present"] = "true";
      if (attributes->contains("sriov_totalvfs")) found.labels[name + ".sriov.capable"] = "true";
    }
    instances.push_back(*std::move(attributes));
  }
  return found;
}

}  // namespace pitcrew::node::nfd
