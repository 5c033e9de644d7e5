#include "node/toolkit/wsl_spec.h"

#include "base/log.h"
#include "base/strings.h"
#include "cdi/generate/wsl.h"
#include "host/dxcore.h"

namespace pitcrew::node::toolkit {

base::Result<cdi::Spec> GenerateWslSpec(const host::Root& driver_root, const host::Root& dev_root,
                                        const cdi_generate::Options& options) {
  TRY_ASSIGN(const auto library, host::FindDxCore(driver_root));
  TRY_ASSIGN(const auto stores, host::ReadDriverStores(library));
  cdi_generate::LocateOptions locate;
  locate.driver_root = driver_root;
  locate.dev_root = dev_root;
  TRY_ASSIGN(const auto files, cdi_generate::LocateWsl(locate, stores));
  if (!files.missing.empty()) {
    base::LogWarning("Some of the driver's files are not there",
                     {{"files", base::Join(files.missing, ", ")}});
  }
  return cdi_generate::GenerateWsl(files, options);
}

}  // namespace pitcrew::node::toolkit
