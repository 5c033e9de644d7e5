#include "host/modalias.h"

#include <fmt/format.h>

#include <optional>

#include "base/strings.h"
#include "host/sysfs.h"

namespace pitcrew::host {
namespace {

constexpr std::string_view kAnything = "*";

// How many fields of the alias any device has; none when it is not made for this one.
std::optional<int> Openness(const Modalias& alias, const Modalias& device) {
  int open = 0;
  for (std::size_t i = 0; i < alias.fields.size(); ++i) {
    if (alias.fields[i] == kAnything) {
      ++open;
    } else if (alias.fields[i] != device.fields[i]) {
      return std::nullopt;
    }
  }
  return open;
}

}  // namespace

base::Result<Modalias> ParseModalias(std::string_view text) {
  constexpr std::array<std::string_view, 7> kStarts = {"v", "d", "sv", "sd", "bc", "sc", "i"};
  const auto malformed = [&](std::string_view what) {
    return base::Fail(base::Invalid(
        "MalformedModalias",
        fmt::format("\"{}\" is no modalias of a PCI device: {} is missing", text, what)));
  };
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return malformed("the colon");
  auto rest = text.substr(colon + 1);
  if (!rest.starts_with(kStarts.front())) return malformed("\"v\"");
  rest.remove_prefix(kStarts.front().size());
  Modalias modalias;
  for (std::size_t i = 0; i + 1 < kStarts.size(); ++i) {
    const auto end = rest.find(kStarts[i + 1]);
    if (end == std::string_view::npos) return malformed(fmt::format("\"{}\"", kStarts[i + 1]));
    modalias.fields[i] = rest.substr(0, end);
    rest.remove_prefix(end + kStarts[i + 1].size());
  }
  modalias.fields.back() = rest;
  return modalias;
}

base::Result<Modalias> ReadModalias(const PciDevice& device) {
  TRY_ASSIGN(const auto text, ReadAttribute(device.folder / "modalias"));
  auto modalias = ParseModalias(text);
  if (modalias) return modalias;
  return base::Fail(modalias.error().Within((device.folder / "modalias").string()));
}

std::vector<VfioAlias> ParseVfioAliases(std::string_view modules_alias) {
  std::vector<VfioAlias> aliases;
  for (const auto& line : base::Split(modules_alias, '\n')) {
    const auto words = base::Split(base::Trim(line), ' ');
    if (words.size() != 3 || words[0] != "alias" || !words[1].starts_with("vfio_pci:")) continue;
    auto devices = ParseModalias(words[1]);
    if (devices) aliases.push_back({*std::move(devices), words[2]});
  }
  return aliases;
}

std::string BestVfioModule(const std::vector<VfioAlias>& aliases, const Modalias& device) {
  std::string best = "vfio-pci";
  std::optional<int> least;
  for (const auto& alias : aliases) {
    const auto open = Openness(alias.devices, device);
    if (!open || (least && *open >= *least)) continue;
    least = open;
    best = alias.module;
  }
  return best;
}

}  // namespace pitcrew::host
