#include "desired/driver_objects/driver_view.h"

#include "base/strings.h"

namespace pitcrew::desired {

base::Result<DriverView> ReadDriverView(const codec::Json& object) {
  TRY_ASSIGN(auto driver, api::ReadNvidiaDriver(object));
  DriverView view;
  view.driver = std::move(driver);
  if (const codec::Json* status = codec::Find(object, {"status"})) view.status = *status;
  view.version =
      base::ParseUnsigned(codec::FindString(object, {"metadata", "resourceVersion"})).value_or(0);
  view.deleting = codec::Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
  return view;
}

}  // namespace pitcrew::desired
