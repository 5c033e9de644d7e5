#include "simulation/tests/support_nvml_library.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {

const std::string kLibrary = test_support::BuildFolder().string() + "/lib/libnvidia-ml.so.1";

}  // namespace pitcrew::simulation
