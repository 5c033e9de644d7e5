// Field values of NVLinks: those that name their link in their number, and those that have it as
// their scope.
#include <cstdint>

#include "simulation/nvml/fields.h"
#include "simulation/state/links.h"
#include "simulation/state/readings.h"

namespace pitcrew::simulation::library {

using namespace nvml::abi;

namespace {

// Counters of a link, in the order of nvmlNvLinkErrorCounter_t.
enum LinkCounter : std::uint32_t { kReplay, kRecovery, kCrcFlit, kCrcData, kEccData };

std::uint64_t SumLinkErrors(const GpuState& gpu, LinkCounter counter) {
  std::uint64_t sum = 0;
  for (std::uint32_t link = 0; link < gpu.link_count; ++link) {
    sum += gpu.link_errors[link][counter];
  }
  return sum;
}

struct LinkScope {
  bool all = false;
  std::uint64_t links = 0;
  bool up = false;
  std::uint64_t bytes = 0;  // in each direction
};

// Counters of errors. False: no such field.
bool ReadLinkErrors(const Request& request, const LinkScope& scope, FieldValue& value) {
  const GpuState& gpu = request.gpu;
  const auto errors = [&](LinkCounter counter) {
    return scope.all ? SumLinkErrors(gpu, counter) : gpu.link_errors[request.scope][counter];
  };
  switch (request.id) {
    case field::kNvLinkErrorDlReplay:
      Set(value, errors(kReplay));
      return true;
    case field::kNvLinkErrorDlRecovery:
    case field::kNvLinkCountLinkRecoveryEvents:
    case field::kNvLinkCountLinkRecoverySuccessfulEvents:
      Set(value, errors(kRecovery));
      return true;
    case field::kNvLinkErrorDlCrc:
    case field::kNvLinkCountRcvErrors:
      Set(value, errors(kCrcFlit) + errors(kCrcData));
      return true;
    case field::kNvLinkCountEffectiveBer:
    case field::kNvLinkCountSymbolBer:
      Set(value, kNoBitErrors);
      return true;
    default:
      return false;
  }
}

void ReadLink(const Request& request, const LinkScope& scope, FieldValue& value) {
  const GpuState& gpu = request.gpu;
  switch (request.id) {
    case field::kNvLinkThroughputDataTx:
    case field::kNvLinkThroughputDataRx:
      Set(value, scope.bytes / 1024);
      break;
    case field::kNvLinkThroughputRawTx:
    case field::kNvLinkThroughputRawRx:
      Set(value, scope.bytes / 1024 * 9 / 8);  // with the link's own overhead
      break;
    case field::kNvLinkGetSpeed:
      Set(value, scope.up ? gpu.link_speed_mbps : 0u);
      break;
    case field::kNvLinkGetState:
      Set(value, scope.up ? 1u : 0u);
      break;
    case field::kNvLinkGetVersion:
      Set(value, gpu.link_version);
      break;
    case field::kNvLinkCountXmitBytes:
    case field::kNvLinkCountRcvBytes:
      Set(value, scope.bytes);
      break;
    case field::kNvLinkCountXmitPackets:
    case field::kNvLinkCountRcvPackets:
      Set(value, scope.bytes / 256);
      break;
    default:
      if (!ReadLinkErrors(request, scope, value)) Set(value, std::uint64_t{0});
  }
}

std::uint32_t ConnectedToSwitch(const Request& request) {
  std::uint32_t connected = 0;
  for (std::uint32_t link = 0; link < request.gpu.link_count; ++link) {
    const LinkEnd end = FarEnd(request.node, request.position, link);
    connected += end.kind == LinkEnd::Kind::kSwitch ? 1 : 0;
  }
  return connected;
}

}  // namespace

// Fields that name their link in the number of the field: six links, then the total, and six more
// elsewhere.
bool ReadNumberedLink(const Request& request, FieldValue& value) {
  struct Range {
    unsigned first;  // links 0 to 5, then the total
    unsigned more;   // links 6 to 11
    LinkCounter counter;
  };
  constexpr Range kRanges[] = {
      {field::kNvLinkCrcFlitErrors, field::kNvLinkCrcFlitErrorsL6, kCrcFlit},
      {field::kNvLinkCrcDataErrors, field::kNvLinkCrcDataErrorsL6, kCrcData},
      {field::kNvLinkReplayErrors, field::kNvLinkReplayErrorsL6, kReplay},
      {field::kNvLinkRecoveryErrors, field::kNvLinkRecoveryErrorsL6, kRecovery}};
  const GpuState& gpu = request.gpu;
  // From NVLink 5 on, links are asked for by scope.
  const auto set_link = [&](unsigned link, LinkCounter counter) {
    if (gpu.architecture < kBlackwell && link < gpu.link_count) {
      Set(value, gpu.link_errors[link][counter]);
    }
    return true;
  };
  for (const auto& range : kRanges) {
    if (request.In(range.first, range.first + 5)) {
      return set_link(request.id - range.first, range.counter);
    }
    if (request.In(range.more, range.more + 5)) {
      return set_link(request.id - range.more + 6, range.counter);
    }
    if (request.id == range.first + 6) {
      if (gpu.link_count != 0 && gpu.architecture < kBlackwell) {
        Set(value, SumLinkErrors(gpu, range.counter));
      }
      return true;
    }
  }
  if (request.In(field::kNvLinkEccDataErrors, field::kNvLinkEccDataErrors + 11)) {
    return set_link(request.id - field::kNvLinkEccDataErrors, kEccData);
  }
  if (request.id == field::kNvLinkEccDataErrorsTotal) {
    if (gpu.link_count != 0) Set(value, SumLinkErrors(gpu, kEccData));
    return true;
  }
  return false;
}

// Fields whose scope is a link, or all links.
bool ReadScopedLink(const Request& request, FieldValue& value) {
  const GpuState& gpu = request.gpu;
  const bool all = request.scope == kAllLinks;
  const bool known = request.In(field::kNvLinkThroughputDataTx, field::kNvLinkThroughputRawRx) ||
                     request.In(field::kNvLinkErrorDlReplay, field::kNvLinkGetVersion) ||
                     request.In(field::kNvLinkCountXmitPackets, field::kNvLinkCountSymbolBer) ||
                     request.In(field::kNvLinkCountFecHistory0, field::kNvLinkCountFecHistory15);
  if (!known) return false;
  if (gpu.link_count == 0) return true;
  if (!all && request.scope >= kMaxNvLinks) {
    value.nvml_return = kInvalidArgument;
    return true;
  }
  if (!all && request.scope >= gpu.link_count) return true;
  if (request.id >= field::kNvLinkCountXmitPackets && gpu.architecture < kBlackwell) return true;
  LinkScope scope;
  scope.all = all;
  scope.links = all ? gpu.link_count : 1;
  scope.up = FarEnd(request.node, request.position, all ? 0 : request.scope).kind !=
             LinkEnd::Kind::kNothing;
  scope.bytes = scope.up ? scope.links * LinkBytes(gpu, request.now) : 0;
  ReadLink(request, scope, value);
  return true;
}

bool ReadLinkFacts(const Request& request, FieldValue& value) {
  const GpuState& gpu = request.gpu;
  if (request.id == field::kNvLinkLinkCount) {
    if (gpu.link_count != 0) Set(value, gpu.link_count);
    return true;
  }
  if (request.id == field::kNvSwitchConnectedLinks) {
    // A board without links says so by a value of no type.
    if (gpu.link_count == 0) {
      value.nvml_return = kSuccess;
    } else {
      Set(value, ConnectedToSwitch(request));
    }
    return true;
  }
  const bool low = request.In(field::kNvLinkSpeedMbps, field::kNvLinkSpeedMbpsCommon);
  if (!low && !request.In(field::kNvLinkSpeedMbpsL6, field::kNvLinkSpeedMbpsL6 + 5)) return false;
  const bool common = request.id == field::kNvLinkSpeedMbpsCommon;
  const unsigned link = common ? 0
                        : low  ? request.id - field::kNvLinkSpeedMbps
                               : request.id - field::kNvLinkSpeedMbpsL6 + 6;
  if (link < gpu.link_count) Set(value, gpu.link_speed_mbps);
  return true;
}

}  // namespace pitcrew::simulation::library
