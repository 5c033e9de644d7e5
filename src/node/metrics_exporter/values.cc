#include "node/metrics_exporter/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "nvml/abi_metrics.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using Content = std::variant<std::int64_t, double, std::string>;

std::unexpected<std::string_view> None(std::string_view reason) { return std::unexpected(reason); }

double AsDouble(const nvml::Answer& answer) {
  if (const auto* number = std::get_if<double>(&answer)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&answer)) return static_cast<double>(*number);
  return 0;
}

// Never beyond what the type holds.
std::int64_t Whole(double number) {
  constexpr double kMost = 9.2e18;
  return static_cast<std::int64_t>(std::clamp(number, -kMost, kMost));
}

// A mantissa with an exponent of ten (metrics-exporter.md 8.5): the lower eight bits and those
// above are NVML's encoding of a bit error rate.
double BitErrorRate(std::int64_t raw) {
  const auto bits = static_cast<std::uint64_t>(raw);
  return static_cast<double>(nvml::abi::BerMantissa(bits)) *
         std::pow(10.0, -static_cast<double>(nvml::abi::BerExponent(bits)));
}

// What DCGM calls blank, not found, not supported, not permitted (metrics-exporter.md 4.3).
bool IsBlank(std::int64_t number) {
  constexpr std::int64_t kBlank64 = 9223372036854775792;
  constexpr std::int64_t kKinds = 4;
  return number >= kBlank64 && number < kBlank64 + kKinds;
}
bool IsBlank(double number) {
  constexpr double kBlank = 140737488355328.0;
  return number >= kBlank && number <= kBlank + 3;
}
bool IsBlank(std::string_view text) {
  constexpr std::array<std::string_view, 5> kBlank = {"<<<NULL>>>", "<<<NOT_FOUND>>>",
                                                      "<<<NOT_SUPPORTED>>>",
                                                      "<<<NOT_PERMISSIONED>>>", "<<<NOT_PERM>>>"};
  return std::ranges::find(kBlank, text) != kBlank.end();
}

std::string_view BrandName(unsigned brand) {
  constexpr std::array<std::string_view, 17> kNames = {"Unknown",
                                                       "Quadro",
                                                       "Tesla",
                                                       "NVS",
                                                       "GRID",
                                                       "GeForce",
                                                       "Titan",
                                                       "NVIDIA Virtual Applications",
                                                       "NVIDIA Virtual PC",
                                                       "NVIDIA Virtual Compute Server",
                                                       "NVIDIA RTX Virtual Workstation",
                                                       "NVIDIA vGaming",
                                                       "Quadro RTX",
                                                       "NVIDIA RTX",
                                                       "NVIDIA",
                                                       "GeForce RTX",
                                                       "Titan RTX"};
  return brand < kNames.size() ? kNames[brand] : kNames[0];
}

Value FabricValue(Fact fact, const gpu::Device& device) {
  const auto* fabric = device.fabric.value();
  if (fabric == nullptr) return None("the GPU is in no NVLink fabric");
  constexpr std::uint8_t kCompleted = 3;
  constexpr std::int64_t kFailed = 4;  // DCGM's own number for a registration that ended badly
  switch (fact) {
    case Fact::kFabricState:
      if (fabric->state == kCompleted && fabric->status != 0) return Content(kFailed);
      return Content(std::int64_t{fabric->state});
    case Fact::kFabricError:
      if (fabric->state != kCompleted) return None("the GPU has not registered with its fabric");
      return Content(std::int64_t{fabric->status});
    case Fact::kFabricClique:
      return Content(std::int64_t{fabric->clique_id});
    default:
      return Content(fabric->ClusterUuidText());
  }
}

Value TextValue(const std::string& text) {
  if (text.empty()) return None("not supported by these GPUs");
  return Content(text);
}

Value MachineValue(Fact fact, const gpu::Inventory& inventory) {
  switch (fact) {
    case Fact::kDriverVersion:
      return TextValue(inventory.driver_version);
    case Fact::kNvmlVersion:
      return TextValue(inventory.library_version);
    case Fact::kCudaVersion:
      return Content(std::int64_t{inventory.cuda_version});
    default:
      return Content(static_cast<std::int64_t>(inventory.devices.size()));
  }
}

Value DeviceValue(Fact fact, const gpu::Device& device) {
  switch (fact) {
    case Fact::kBrand:
      return Content(std::string(BrandName(device.brand)));
    case Fact::kIndex:
      return Content(std::int64_t{device.index});
    case Fact::kSerial:
      return TextValue(device.serial);
    case Fact::kMinor:
      return Content(std::int64_t{device.minor_number});
    case Fact::kPciBusId:
      return Content(device.pci.BusId());
    case Fact::kPciDeviceId:
      return Content(std::int64_t{device.pci_device_id});
    case Fact::kPciSubsystemId:
      return Content(std::int64_t{device.pci_subsystem_id});
    case Fact::kComputeCapability:
      return Content(std::int64_t{device.compute_capability.major} << 16 |
                     device.compute_capability.minor);
    case Fact::kMigMode:
      if (!device.IsMigCapable()) return None("not supported by these GPUs");
      return Content(std::int64_t{device.IsMigEnabled() ? 1 : 0});
    case Fact::kMigMaxSlices:
      if (!device.IsMigCapable()) return None("not supported by these GPUs");
      return Content(std::int64_t{device.max_mig_devices});
    case Fact::kGpmSupport:
      return Content(std::int64_t{device.architecture >= gpu::Architecture::kHopper &&
                                          device.architecture != gpu::Architecture::kUnknown
                                      ? 1
                                      : 0});
    default:
      return FabricValue(fact, device);
  }
}

}  // namespace

std::string_view Reason(nvml::Silence silence) {
  switch (silence) {
    case nvml::Silence::kNotSupported:
      return "not supported by these GPUs";
    case nvml::Silence::kNoPermission:
      return "the driver does not permit it";
    case nvml::Silence::kNotFound:
      return "not found by the driver";
    case nvml::Silence::kNotYet:
      return "it comes with the next round";
    case nvml::Silence::kFailed:
      break;
  }
  return "the driver failed to read it";
}

Value Convert(Conversion conversion, const nvml::Answer& answer) {
  if (const auto* silence = std::get_if<nvml::Silence>(&answer)) return None(Reason(*silence));
  if (const auto* text = std::get_if<std::string>(&answer)) return TextValue(*text);
  const double number = AsDouble(answer);
  constexpr double kMebibyte = 1048576;
  switch (conversion) {
    case Conversion::kInteger:
      return Content(Whole(number));
    case Conversion::kThousandth:
      return Content(number / 1000.0);
    case Conversion::kMebibytes:
      return Content(Whole(number) / 1048576);
    case Conversion::kPercentToRatio:
      return Content(number / 100.0);
    case Conversion::kMebibytesPerSecond:
      return Content(Whole(number * kMebibyte));
    case Conversion::kTemperature: {
      constexpr double kNoTemperature = 200;
      if (number > kNoTemperature) return None("the sensor does not answer");
      return Content(Whole(number));
    }
    case Conversion::kComputeMode: {
      // NVML's: 0 default, 1 exclusive thread, 2 prohibited, 3 exclusive process.
      constexpr std::array<std::int64_t, 4> kRenumbered = {0, 1, 1, 2};
      const auto mode = Whole(number);
      if (mode < 0 || mode >= std::ssize(kRenumbered)) return None("an unknown compute mode");
      return Content(kRenumbered[static_cast<std::size_t>(mode)]);
    }
    case Conversion::kBitErrorRate:
      return Content(BitErrorRate(Whole(number)));
    case Conversion::kAsIs:
      break;
  }
  if (const auto* whole = std::get_if<std::int64_t>(&answer)) return Content(*whole);
  return Content(number);
}

ValueText FormatValue(FieldType type, const Value& value) {
  constexpr std::string_view kBlankReason = "no value was measured";
  if (!value) return std::unexpected(value.error());
  if (const auto* text = std::get_if<std::string>(&*value)) {
    if (IsBlank(*text)) return std::unexpected(kBlankReason);
    return *text;
  }
  const auto* whole = std::get_if<std::int64_t>(&*value);
  const double number = whole != nullptr ? static_cast<double>(*whole) : std::get<double>(*value);
  if (type == FieldType::kDouble) {
    if (std::isnan(number) || IsBlank(number)) return std::unexpected(kBlankReason);
    return fmt::format("{:f}", number);
  }
  const std::int64_t integer = whole != nullptr ? *whole : Whole(number);
  if (IsBlank(integer)) return std::unexpected(kBlankReason);
  return fmt::format("{}", integer);
}

Value FactValue(Fact fact, const gpu::Inventory& inventory, const gpu::Device& device,
                const gpu::MigDevice* instance) {
  switch (fact) {
    case Fact::kDriverVersion:
    case Fact::kNvmlVersion:
    case Fact::kCudaVersion:
    case Fact::kGpuCount:
      return MachineValue(fact, inventory);
    case Fact::kName:
      return TextValue(instance != nullptr ? instance->profile.Name() : device.name);
    case Fact::kUuid:
      return TextValue(instance != nullptr ? instance->uuid : device.uuid);
    default:
      return DeviceValue(fact, device);
  }
}

std::string_view XidMessage(std::uint64_t xid) {
  struct Message {
    unsigned number;
    std::string_view text;
  };
  static constexpr Message kMessages[] = {
#define XID_MESSAGE(number, text) {number, text},
#include "node/metrics_exporter/xid_messages.def"
#undef XID_MESSAGE
  };
  return xid < std::size(kMessages) ? kMessages[xid].text : "Unknown Error";
}

std::string ReplaceBlanks(std::string_view name) {
  std::string replaced;
  for (const char c : name) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      replaced += c;
    } else if (!replaced.empty() && !replaced.ends_with('-')) {
      replaced += '-';
    }
  }
  while (replaced.ends_with('-') && !name.ends_with('-')) replaced.pop_back();
  return replaced;
}

}  // namespace pitcrew::node::metrics_exporter
