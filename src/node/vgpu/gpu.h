// A GPU that is cut into vGPUs, as it is now; plain values (vgpu-device-manager.md section 4,
// virtualisation-and-olm.md section 5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/observed.h"
#include "gpu/pci_address.h"
#include "node/mig/device_id.h"
#include "node/vgpu/configuration.h"

namespace pitcrew::node::vgpu {

// How the driver offers vGPUs.
enum class Framework {
  kNone,    // not now
  kMdev,    // mediated devices, of the GPU itself or of its virtual functions
  kVendor,  // the vendor-specific VFIO framework: one vGPU a virtual function
};

// A type that the GPU has, whatever room there is now.
struct Type {
  std::string name = {};
  std::optional<std::uint64_t> most = {};  // on an empty GPU; nullopt when the driver does not say
  bool operator==(const Type&) const = default;
};

// How many of a type can still be made at one place.
struct Offer {
  std::string type = {};     // name
  std::string type_id = {};  // the driver's: "nvidia-474", "1414"
  std::uint64_t count = 0;
  bool operator==(const Offer&) const = default;
};

// Where vGPUs are made: the GPU itself (mediated devices of boards before Ampere), or one of its
// virtual functions.
struct Slot {
  gpu::PciAddress address = {};
  std::vector<Offer> offers = {};  // by name
  // How many of the type can be made here now.
  [[nodiscard]] std::uint64_t Room(std::string_view type) const;
};

struct Vgpu {
  gpu::PciAddress slot = {};
  std::string uuid = {};     // of a mediated device; empty with the vendor-specific framework
  std::string type = {};     // name; empty when only the driver's id is known
  std::string type_id = {};  // the vendor-specific framework's; empty for mediated devices
  // Who has it open: "qemu-kvm (process 4242, virtual machine default_web)".
  base::Observed<std::vector<std::string>> holders =
      base::Observed<std::vector<std::string>>::Present({});

  // The same device of the same type; who holds it does not matter.
  [[nodiscard]] bool IsSameAs(const Vgpu& other) const;
  // "A100-10C at 0000:41:00.4 (6f9f...)".
  [[nodiscard]] std::string Title() const;
};

struct Gpu {
  int position = 0;  // in the node's list: what `devices` of a configuration counts
  gpu::PciAddress pci = {};
  mig::DeviceId id = {};
  Framework framework = Framework::kNone;
  // SR-IOV: virtual functions now, and at most; 0 for a GPU without.
  unsigned functions = 0;
  unsigned most_functions = 0;
  // By name. Of the vendor-specific framework those that were ever seen since the driver was
  // loaded: a full GPU tells none.
  std::vector<Type> types = {};
  std::vector<Slot> slots = {};  // by address
  std::vector<Vgpu> vgpus = {};  // by slot, then UUID

  // Virtual functions have to be enabled before the driver tells what it offers.
  [[nodiscard]] bool needs_functions() const {
    return framework == Framework::kNone && functions == 0 && most_functions > 0;
  }
  // "GPU 3 (0000:1b:00.0)".
  [[nodiscard]] std::string Title() const;
  [[nodiscard]] const Type* FindType(std::string_view name) const;
};

// vGPUs by type, as they are.
[[nodiscard]] Counts CountsOf(const Gpu& gpu);
// "A100-10C (up to 8), A100-20C (up to 4)", for messages.
[[nodiscard]] std::string DescribeTypes(const Gpu& gpu);

}  // namespace pitcrew::node::vgpu
