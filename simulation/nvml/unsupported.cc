#include "simulation/nvml/session.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation::library;

// Callers pass arguments that are not looked at: in the C calling convention the caller cleans up.
#define UNSUPPORTED(name) \
  NVML_API Return name() { return Session::Get().state() ? kNotSupported : kUninitialized; }
#include "simulation/nvml/unsupported.def"
#undef UNSUPPORTED
