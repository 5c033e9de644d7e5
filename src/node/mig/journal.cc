#include "node/mig/journal.h"

#include "codec/json.h"

namespace pitcrew::node::mig {
namespace {

using codec::Json;

Json ToJson(const std::optional<gpu::MigPlacement>& place) {
  if (!place) return nullptr;
  return {{"start", place->start}, {"size", place->size}};
}

Json ToJson(const JournalEntry& entry) {
  Json instances = Json::array();
  for (const auto& instance : entry.before.instances) {
    Json compute = Json::array();
    for (const auto& one : instance.compute) {
      compute.push_back({{"profile", one.profile}, {"placement", ToJson(one.placement)}});
    }
    instances.push_back({{"profile", instance.profile},
                         {"placement", ToJson(instance.placement)},
                         {"computeInstances", std::move(compute)}});
  }
  return {{"pci", entry.pci.SysfsName()},
          {"uuid", entry.uuid},
          {"migEnabled", entry.before.mig_enabled},
          {"gpuInstances", std::move(instances)}};
}

// These throw nlohmann's exceptions; ParseJournal is the border.
std::optional<gpu::MigPlacement> ReadPlace(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return gpu::MigPlacement{value.at("start").get<unsigned>(), value.at("size").get<unsigned>()};
}

Layout ReadLayout(const Json& value) {
  Layout layout{.mig_enabled = value.at("migEnabled").get<bool>(), .instances = {}};
  for (const Json& one : value.at("gpuInstances")) {
    GpuInstance instance{.profile = one.at("profile").get<unsigned>(),
                         .placement = ReadPlace(one.at("placement")),
                         .compute = {}};
    for (const Json& part : one.at("computeInstances")) {
      instance.compute.push_back(
          {part.at("profile").get<unsigned>(), ReadPlace(part.at("placement"))});
    }
    layout.instances.push_back(std::move(instance));
  }
  return layout;
}

std::unexpected<base::Error> NotUnderstood(std::string_view why) {
  return base::Fail(base::Invalid("InvalidJournal", std::string(why)));
}

}  // namespace

bool JournalEntry::IsOf(const gpu::PciAddress& address, std::string_view gpu_uuid) const {
  return pci == address && (uuid.empty() || gpu_uuid.empty() || uuid == gpu_uuid);
}

std::string ToJsonText(const Journal& journal) {
  Json gpus = Json::array();
  for (const auto& entry : journal) gpus.push_back(ToJson(entry));
  return codec::ToJsonText({{"version", 1}, {"before", std::move(gpus)}}) + "\n";
}

base::Result<Journal> ParseJournal(std::string_view text) {
  const auto document = codec::ParseJson(text, "journal");
  if (!document) return NotUnderstood(document.error().message);
  try {
    if (document->at("version") != 1) return NotUnderstood("its version is not 1");
    Journal journal;
    for (const Json& one : document->at("before")) {
      TRY_ASSIGN(const auto pci, gpu::PciAddress::Parse(one.at("pci").get<std::string>()));
      journal.push_back({pci, one.at("uuid").get<std::string>(), ReadLayout(one)});
    }
    return journal;
  } catch (const Json::exception& error) {
    return NotUnderstood(error.what());
  }
}

}  // namespace pitcrew::node::mig
