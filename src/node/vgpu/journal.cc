#include "node/vgpu/journal.h"

#include "codec/json.h"

namespace pitcrew::node::vgpu {
namespace {

using codec::Json;

Json ToJson(const JournalEntry& entry) {
  Json vgpus = Json::array();
  for (const auto& vgpu : entry.vgpus) {
    vgpus.push_back({{"slot", vgpu.slot.SysfsName()},
                     {"uuid", vgpu.uuid},
                     {"type", vgpu.type},
                     {"typeId", vgpu.type_id}});
  }
  return {{"pci", entry.pci.SysfsName()},
          {"id", entry.id},
          {"functions", entry.functions},
          {"vgpus", std::move(vgpus)}};
}

std::unexpected<base::Error> NotUnderstood(std::string_view why) {
  return base::Fail(base::Invalid("InvalidJournal", std::string(why)));
}

// Throws nlohmann's exceptions; ParseJournal is the border.
base::Result<JournalEntry> ReadEntry(const Json& value) {
  JournalEntry entry;
  TRY_ASSIGN(entry.pci, gpu::PciAddress::Parse(value.at("pci").get<std::string>()));
  entry.id = value.at("id").get<std::string>();
  entry.functions = value.at("functions").get<unsigned>();
  for (const Json& one : value.at("vgpus")) {
    Vgpu vgpu;
    TRY_ASSIGN(vgpu.slot, gpu::PciAddress::Parse(one.at("slot").get<std::string>()));
    vgpu.uuid = one.at("uuid").get<std::string>();
    vgpu.type = one.at("type").get<std::string>();
    vgpu.type_id = one.at("typeId").get<std::string>();
    entry.vgpus.push_back(std::move(vgpu));
  }
  return entry;
}

}  // namespace

bool JournalEntry::IsOf(const Gpu& gpu) const { return pci == gpu.pci && id == gpu.id.ToString(); }

std::string ToJsonText(const Journal& journal) {
  Json gpus = Json::array();
  for (const auto& entry : journal.gpus) gpus.push_back(ToJson(entry));
  Json document = {{"version", 1}, {"before", std::move(gpus)}};
  if (journal.mig) document["mig"] = mig::ToJsonText(*journal.mig);
  return codec::ToJsonText(document) + "\n";
}

base::Result<Journal> ParseJournal(std::string_view text) {
  const auto document = codec::ParseJson(text, "journal");
  if (!document) return NotUnderstood(document.error().message);
  try {
    if (document->at("version") != 1) return NotUnderstood("its version is not 1");
    Journal journal;
    for (const Json& one : document->at("before")) {
      TRY_ASSIGN(auto entry, ReadEntry(one));
      journal.gpus.push_back(std::move(entry));
    }
    if (document->contains("mig")) {
      TRY_ASSIGN(journal.mig,
                 mig::ParseCheckpoint(document->at("mig").get<std::string>(), "journal"));
    }
    return journal;
  } catch (const Json::exception& error) {
    return NotUnderstood(error.what());
  }
}

}  // namespace pitcrew::node::vgpu
