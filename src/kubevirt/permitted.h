// Which devices KubeVirt permits virtual machines: permittedHostDevices of a KubeVirt or
// HyperConverged object, read and written (virtualisation-and-olm.md sections 1.1, 1.3 and 2).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "kubevirt/kinds.h"

namespace pitcrew::kubevirt {

enum class List { kPci, kMediated };
// "pciHostDevices", "mediatedDevices".
std::string_view NameOf(List list);
// "pciVendorSelector", "pciDeviceSelector" or "mdevNameSelector".
std::string_view SelectorField(List list, Form form);
// "spec.configuration.permittedHostDevices".
std::string FieldPath(Form form);

struct Entry {
  List list = List::kPci;
  std::string selector;  // "10DE:2236", "NVIDIA A10-24Q"
  std::string resource;
  // Somebody else's device plugin offers the resource; otherwise KubeVirt does so itself.
  bool external = false;
  bool disabled = false;  // HyperConverged only: left out on purpose

  bool operator==(const Entry&) const = default;
};

// Hexadecimal ids in any case, and mediated types with spaces or underscores, mean the same to
// KubeVirt.
bool SameSelector(List list, std::string_view a, std::string_view b);

struct Permitted {
  // The object says something about devices. Where it does not, KubeVirt permits all of them.
  bool stated = false;
  std::vector<Entry> entries;  // in the order of the object, PCI devices first
  std::set<std::string> usb;   // resources of USB devices

  // Entries that name the resource, also disabled ones.
  [[nodiscard]] std::vector<const Entry*> Naming(std::string_view resource) const;
  [[nodiscard]] bool Permits(std::string_view resource) const;
};

// kInvalid when the lists are not what the API says that they are.
base::Result<Permitted> ReadPermitted(const codec::Json& object, Form form);

// The part of the object that has the lists; null where it has none. Borrowed.
const codec::Json* FindPermitted(const codec::Json& object, Form form);
Entry ReadEntry(const codec::Json& entry, List list, Form form);
codec::Json ToJson(const Entry& entry, Form form);
inline constexpr std::string_view kPermittedField = "permittedHostDevices";
// The part of spec that kPermittedField is in; "": spec itself.
std::string_view ParentField(Form form);
// A patch of the object whose permittedHostDevices is `value`.
codec::Json PatchOf(Form form, codec::Json value);

}  // namespace pitcrew::kubevirt
