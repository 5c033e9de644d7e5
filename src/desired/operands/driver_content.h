// What the ConfigMaps and Secrets of a driver hold: a change of it is rolled out, which upstream
// leaves to people (reference driver-lifecycle.md section 12 #21).
//
// Parameters of the kernel modules take effect when these are loaded anew: their change becomes
// part of DRIVER_CONFIG_DIGEST, and the driver is upgraded. Licences, topology and variables from a
// Secret are read by a new driver pod: it alone is restarted. Repositories and certificates are
// read by the next build, and restart nothing.
//
// A change is one from what was first seen with the DaemonSet. So a DaemonSet that upstream's
// operator made keeps its digest, and no node is upgraded for having been taken over.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "desired/operand.h"

namespace pitcrew::desired {

// One kind of content.
struct DriverContent {
  std::map<std::string, std::string> objects;  // digests of the data, by kind and name
  std::string change = {};  // digest of the objects that were rolled out as a change; "": none were

  bool operator==(const DriverContent&) const = default;
};

// What stands after `objects` was seen. An object whose data is not known ("") is as it was; while
// one was never known nothing is remembered. Another set of objects is a beginning: their names are
// in the pod template, and change it by themselves.
std::optional<DriverContent> NextContent(const std::optional<DriverContent>& standing,
                                         std::map<std::string, std::string> objects);

// To the finished DaemonSet of a driver, which has its DRIVER_CONFIG_DIGEST and will be called
// `name`.
void ApplyDriverContent(Object& daemonset, const std::string& name, const Context& context);

}  // namespace pitcrew::desired
