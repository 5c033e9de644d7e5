// The modes of confidential computing, as the label nvidia.com/cc.mode names them
// (virtualisation-and-olm.md section 12.1).
#pragma once

#include <string_view>

#include "base/result.h"

namespace pitcrew::node::cc_mode {

enum class Mode {
  kOff,
  kOn,
  kDevtools,  // confidential computing that lets itself be debugged: for development only
  kPpcie,     // protected PCIe: all GPUs and NVSwitches of a node together
  kInvalid,   // what no one asks for: half of a change of somebody else's
};

std::string_view ToString(Mode mode);
// kInvalid "UnknownMode" names those that there are.
base::Result<Mode> ParseMode(std::string_view text);

}  // namespace pitcrew::node::cc_mode
