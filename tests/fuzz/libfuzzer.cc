// The targets under libFuzzer, which finds inputs by what they reach: PITCREW_FUZZ_TARGET names the
// target. `make fuzz` runs this.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz/target.h"

namespace {
const pitcrew::fuzz::Target* target = nullptr;
}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* name = std::getenv("PITCREW_FUZZ_TARGET");
  target = name == nullptr ? nullptr : pitcrew::fuzz::FindTarget(name);
  if (target == nullptr) {
    std::fputs("fuzz: PITCREW_FUZZ_TARGET must name one of:\n", stderr);
    pitcrew::fuzz::PrintTargets();
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
