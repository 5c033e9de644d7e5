// An operand that the product does not have, handed in from outside: its descriptor here, its
// manifests in testing/manifests. What a test finds of it, the product has derived.
#pragma once

#include "desired/operand_table.h"

namespace pitcrew::desired::testing {

inline constexpr std::string_view kOutsideState = "state-frobnicator";
inline constexpr std::string_view kOutsideLabel = "nvidia.com/gpu.deploy.frobnicator";
inline constexpr std::string_view kOutsideImage = "FROBNICATOR_IMAGE";

// The product's operands, and behind them the one from outside. A policy wants it with
// spec.psa.enabled, which no other operand reads.
const OperandTable& TableWithOutsideOperand();

}  // namespace pitcrew::desired::testing
