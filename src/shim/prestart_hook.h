// nvidia-container-runtime-hook: the prestart hook of the time before CDI. It never injects
// anything here; it makes sure that a container which relies on it does not start without its GPUs
// unnoticed (container-toolkit.md 8).
#pragma once

namespace pitcrew::shim {

// Exit codes: 0 nothing to do, 1 devices are requested (or the input is broken), 2 usage.
int RunPrestartHook(int argc, char** argv);

}  // namespace pitcrew::shim
