// Base64 with the standard alphabet and padding (RFC 4648, section 4).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::codec {

std::string EncodeBase64(std::string_view bytes);
// White space between the characters is allowed; everything else that does not belong is kInvalid.
base::Result<std::string> DecodeBase64(std::string_view text);

}  // namespace pitcrew::codec
