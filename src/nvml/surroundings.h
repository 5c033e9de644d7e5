// Where a GPU is: near which processors, in which fabric, at which place of its rack, and what the
// ports of its NVLinks count. Private to this room.
#pragma once

#include <optional>

#include "nvml/meter.h"
#include "nvml/symbols.h"

namespace pitcrew::nvml {

// Nullopt for a question that is about something else.
std::optional<Answer> AskSurroundings(const Symbols& nvml, abi::Device gpu,
                                      const Question& question);

// All Quantity::kPortCounter of a part by one call.
void ReadPortCounters(const Symbols& nvml, abi::Device gpu, const Part& part, PartAnswers& answers);

}  // namespace pitcrew::nvml
