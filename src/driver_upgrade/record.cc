#include "driver_upgrade/record.h"

#include "codec/json.h"

namespace pitcrew::driver_upgrade {

using codec::Json;

std::string ToText(const Record& record) {
  Json json = {{"revision", record.revision}, {"finished", base::FormatRfc3339(record.finished)}};
  if (record.duration) json["seconds"] = record.duration->count();
  return codec::ToJsonText(json);
}

std::optional<Record> ReadRecord(std::string_view text) {
  const auto json = codec::ParseJson(text);
  if (!json || !json->is_object()) return std::nullopt;
  const auto finished = base::ParseRfc3339(codec::FindString(*json, {"finished"}));
  Record record{.revision = codec::FindString(*json, {"revision"}),
                .finished = finished.value_or(base::WallClock::time_point()),
                .duration = std::nullopt};
  if (!finished || record.revision.empty()) return std::nullopt;
  if (const Json* seconds = codec::Find(*json, {"seconds"});
      seconds != nullptr && seconds->is_number_unsigned()) {
    record.duration = std::chrono::seconds(seconds->get<std::uint32_t>());
  }
  return record;
}

}  // namespace pitcrew::driver_upgrade
