#include "simulation/tests/support_nvml_library.h"

namespace pitcrew::simulation {

const std::string kLibrary = std::string(PITCREW_BINARY_DIR) + "/lib/libnvidia-ml.so.1";

}  // namespace pitcrew::simulation
