// Amounts of resources as Kubernetes writes them: 500m, 0.5 and 5e-1 say the same, and the API
// server stores one of them whatever it was given.
#pragma once

#include "codec/json.h"

namespace pitcrew::desired {

// Both are quantities (text or numbers) of the same amount. False for anything else, and for
// amounts that are too large or too fine to be compared.
bool SameQuantity(const codec::Json& a, const codec::Json& b);

}  // namespace pitcrew::desired
