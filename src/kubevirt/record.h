// What of permittedHostDevices was added by us, as an annotation of the object remembers it.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "kubevirt/permitted.h"

namespace pitcrew::kubevirt {

struct Record {
  std::vector<Entry> entries;  // all of them external and not disabled
  // Fields that the object did not have before: permittedHostDevices, what it is in, and lists.
  std::set<std::string> made;

  bool operator==(const Record&) const = default;
};

// Nothing but entries where there is no annotation. kInvalid when it cannot be read.
base::Result<Record> ReadRecord(const codec::Json& object, std::string_view annotation);
// "" for a record without entries.
std::string ToText(const Record& record);

}  // namespace pitcrew::kubevirt
