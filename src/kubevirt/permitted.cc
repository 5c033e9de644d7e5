#include "kubevirt/permitted.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "gpu/device_names.h"

namespace pitcrew::kubevirt {
namespace {

using codec::Json;

base::Error Malformed(const Json& object, Form form, std::string_view what) {
  return base::Invalid(
      "PermittedDevicesUnreadable",
      fmt::format("{} {}: {}.{} is not what the API says that it is", KindOf(form).kind,
                  kube::KeyOf(object).ToString(), FieldPath(form), what));
}

bool IsTrue(const Json& entry, std::string_view field) {
  const Json* value = codec::Find(entry, {field});
  return value != nullptr && *value == true;
}

// Null where the list is absent.
base::Result<const Json*> FindList(const Json& object, const Json& permitted, Form form,
                                   std::string_view name) {
  const Json* list = codec::Find(permitted, {name});
  if (list == nullptr || list->is_null()) return nullptr;
  const auto is_object = [](const Json& entry) { return entry.is_object(); };
  if (list->is_array() && std::ranges::all_of(*list, is_object)) return list;
  return base::Fail(Malformed(object, form, name));
}

}  // namespace

std::string_view NameOf(List list) {
  return list == List::kPci ? "pciHostDevices" : "mediatedDevices";
}

std::string_view SelectorField(List list, Form form) {
  if (list == List::kMediated) return "mdevNameSelector";
  return form == Form::kKubeVirt ? "pciVendorSelector" : "pciDeviceSelector";
}

std::string_view ParentField(Form form) {
  switch (form) {
    case Form::kKubeVirt:
      return "configuration";
    case Form::kHyperConvergedV1:
      return "virtualization";
    case Form::kHyperConvergedV1Beta1:
      break;
  }
  return "";
}

std::string FieldPath(Form form) {
  const auto parent = ParentField(form);
  return parent.empty() ? fmt::format("spec.{}", kPermittedField)
                        : fmt::format("spec.{}.{}", parent, kPermittedField);
}

bool SameSelector(List list, std::string_view a, std::string_view b) {
  if (list == List::kPci) return base::ToLower(base::Trim(a)) == base::ToLower(base::Trim(b));
  return gpu::VgpuName(a) == gpu::VgpuName(b);
}

std::vector<const Entry*> Permitted::Naming(std::string_view resource) const {
  std::vector<const Entry*> found;
  for (const Entry& entry : entries) {
    if (entry.resource == resource) found.push_back(&entry);
  }
  return found;
}

bool Permitted::Permits(std::string_view resource) const {
  if (!stated || usb.contains(std::string(resource))) return true;
  return std::ranges::any_of(
      entries, [&](const Entry& entry) { return entry.resource == resource && !entry.disabled; });
}

const Json* FindPermitted(const Json& object, Form form) {
  const auto parent = ParentField(form);
  const Json* found = parent.empty() ? codec::Find(object, {"spec", kPermittedField})
                                     : codec::Find(object, {"spec", parent, kPermittedField});
  return found == nullptr || found->is_null() ? nullptr : found;
}

Entry ReadEntry(const Json& entry, List list, Form form) {
  return {.list = list,
          .selector = codec::FindString(entry, {SelectorField(list, form)}),
          .resource = codec::FindString(entry, {"resourceName"}),
          .external = IsTrue(entry, "externalResourceProvider"),
          .disabled = form != Form::kKubeVirt && IsTrue(entry, "disabled")};
}

base::Result<Permitted> ReadPermitted(const Json& object, Form form) {
  Permitted permitted;
  const Json* value = FindPermitted(object, form);
  if (value == nullptr) return permitted;
  if (!value->is_object()) return base::Fail(Malformed(object, form, "*"));
  permitted.stated = true;
  for (const List list : {List::kPci, List::kMediated}) {
    TRY_ASSIGN(const Json* entries, FindList(object, *value, form, NameOf(list)));
    if (entries == nullptr) continue;
    for (const Json& entry : *entries) {
      permitted.entries.push_back(ReadEntry(entry, list, form));
    }
  }
  const auto* usb_list = form == Form::kKubeVirt ? "usb" : "usbHostDevices";
  TRY_ASSIGN(const Json* usb, FindList(object, *value, form, usb_list));
  if (usb == nullptr) return permitted;
  for (const Json& entry : *usb) {
    if (form != Form::kKubeVirt && IsTrue(entry, "disabled")) continue;
    permitted.usb.insert(codec::FindString(entry, {"resourceName"}));
  }
  return permitted;
}

Json ToJson(const Entry& entry, Form form) {
  Json value = {{std::string(SelectorField(entry.list, form)), entry.selector},
                {"resourceName", entry.resource},
                {"externalResourceProvider", entry.external}};
  if (entry.disabled) value["disabled"] = true;
  return value;
}

Json PatchOf(Form form, Json value) {
  Json patch = {{std::string(kPermittedField), std::move(value)}};
  if (const auto parent = ParentField(form); !parent.empty()) {
    patch = {{std::string(parent), std::move(patch)}};
  }
  return {{"spec", std::move(patch)}};
}

}  // namespace pitcrew::kubevirt
