#include "node/cc_mode/journal.h"

#include "codec/json.h"

namespace pitcrew::node::cc_mode {
namespace {

using codec::Json;

// Throws nlohmann's exceptions; ParseJournal is the border.
base::Result<DeviceMode> ReadEntry(const Json& value) {
  DeviceMode entry;
  TRY_ASSIGN(entry.address, gpu::PciAddress::Parse(value.at("pci").get<std::string>()));
  TRY_ASSIGN(entry.mode, ParseMode(value.at("mode").get<std::string>()));
  entry.is_switch = value.value("switch", false);
  return entry;
}

}  // namespace

std::string ToJsonText(const Journal& journal) {
  Json before = Json::array();
  for (const auto& entry : journal.before) {
    // Half of somebody else's change is nothing to go back to.
    const Mode mode = entry.mode == Mode::kInvalid ? Mode::kOff : entry.mode;
    before.push_back({{"pci", entry.address.SysfsName()},
                      {"mode", ToString(mode)},
                      {"switch", entry.is_switch}});
  }
  return codec::ToJsonText({{"version", 1}, {"before", std::move(before)}});
}

base::Result<Journal> ParseJournal(std::string_view text) {
  TRY_ASSIGN(const auto document, codec::ParseJson(text, "the journal"));
  try {
    if (document.at("version") != 1) {
      return base::Fail(base::Invalid("InvalidJournal", "the journal is of another version"));
    }
    Journal journal;
    for (const Json& value : document.at("before")) {
      TRY_ASSIGN(const auto entry, ReadEntry(value));
      journal.before.push_back(entry);
    }
    return journal;
  } catch (const Json::exception& error) {
    return base::Fail(base::Invalid("InvalidJournal", error.what()));
  }
}

}  // namespace pitcrew::node::cc_mode
