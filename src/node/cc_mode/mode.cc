#include "node/cc_mode/mode.h"

#include <fmt/format.h>

namespace pitcrew::node::cc_mode {

std::string_view ToString(Mode mode) {
  switch (mode) {
    case Mode::kOff:
      return "off";
    case Mode::kOn:
      return "on";
    case Mode::kDevtools:
      return "devtools";
    case Mode::kPpcie:
      return "ppcie";
    case Mode::kInvalid:
      break;
  }
  return "invalid";
}

base::Result<Mode> ParseMode(std::string_view text) {
  for (const Mode mode : {Mode::kOff, Mode::kOn, Mode::kDevtools, Mode::kPpcie}) {
    if (text == ToString(mode)) return mode;
  }
  return base::Fail(base::Invalid(
      "UnknownMode",
      fmt::format("there is no mode \"{}\" of confidential computing; there are on, off, devtools, "
                  "ppcie",
                  text)));
}

}  // namespace pitcrew::node::cc_mode
