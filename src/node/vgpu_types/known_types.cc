#include "node/vgpu_types/known_types.h"

#include <limits>
#include <optional>

#include "base/file.h"
#include "base/strings.h"
#include "codec/json.h"

namespace pitcrew::node::vgpu_types {
namespace {

using gpu::PciAddress;

std::optional<std::uint32_t> ParseId(std::string_view text) {
  const auto id = base::ParseUnsigned(text);
  if (!id || *id == 0 || *id > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*id);
}

}  // namespace

KnownTypes KnownTypes::Load(const std::filesystem::path& file) {
  KnownTypes known;
  const auto text = base::ReadFile(file);
  if (!text) return known;
  const auto document = codec::ParseJson(*text, file.string());
  if (!document || !document->is_object()) return known;
  for (const auto& [address, types] : document->items()) {
    const auto gpu = PciAddress::Parse(address);
    if (!gpu || !types.is_object()) continue;
    for (const auto& [digits, name] : types.items()) {
      const auto id = ParseId(digits);
      if (id && name.is_string()) known.names_[*gpu][*id] = name.get<std::string>();
    }
  }
  return known;
}

base::Status KnownTypes::Save(const std::filesystem::path& file) const {
  if (names_.empty()) return {};
  codec::Json document = codec::Json::object();
  for (const auto& [gpu, types] : names_) {
    auto& names = document[gpu.SysfsName()];
    for (const auto& [id, name] : types) names[std::to_string(id)] = name;
  }
  const auto text = codec::ToJsonText(document) + "\n";
  if (const auto there = base::ReadFile(file); there && *there == text) return {};
  return base::WriteFileAtomically(file, text);
}

void KnownTypes::Learn(const PciAddress& gpu, const std::vector<host::VendorVgpuType>& told) {
  for (const auto& type : told) names_[gpu][type.id] = type.name;
}

void KnownTypes::Learn(const KnownTypes& others) {
  for (const auto& [gpu, types] : others.names_) {
    auto& names = names_[gpu];
    for (const auto& [id, name] : types) names.try_emplace(id, name);
  }
}

const KnownTypes::Names& KnownTypes::Of(const PciAddress& gpu) const {
  static const Names kNone;
  const auto found = names_.find(gpu);
  return found == names_.end() ? kNone : found->second;
}

std::string KnownTypes::NameOf(const PciAddress& gpu, std::uint32_t id) const {
  const auto& names = Of(gpu);
  const auto found = names.find(id);
  return found == names.end() ? "" : found->second;
}

}  // namespace pitcrew::node::vgpu_types
