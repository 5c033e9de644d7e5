// status of a NVIDIADriver as a pure function (reference operator-behaviour.md sections 8.1 and
// 12.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "codec/json.h"
#include "desired/driver_objects/pools.h"
#include "desired/operand_report.h"

namespace pitcrew::desired {

enum class DriverState { kReady, kNotReady, kDisabled };
std::string_view ToString(DriverState state);

// How far the driver is on one pool of its nodes.
struct DriverPoolProgress {
  std::string pool;
  bool ready = false;
  std::string message;
};

// What a pass over a NVIDIADriver came to.
struct DriverOutcome {
  DriverState state = DriverState::kNotReady;
  std::string reason;   // of Ready when it is ready, else of Error
  std::string message;  // for a person
  std::vector<DriverPoolProgress> pools = {};
  // Why no other node's driver will be upgraded until a person does something; "" normally.
  std::string upgrade_stopped = {};
};

// From what became of its objects. Pools without a DaemonSet in `report` are not ready.
DriverOutcome OutcomeOf(const OperandReport& report, const api::NvidiaDriver& driver,
                        const DriverPools& pools);

// The new status: conditions Ready and Error as upstream has them, one for each pool, and
// DriverUpgradeReady as a ClusterPolicy has it.
// `previous` as in MakeStatus.
codec::Json MakeDriverStatus(const DriverOutcome& outcome, std::string_view operator_namespace,
                             std::int64_t generation, const codec::Json& previous,
                             base::WallClock::time_point now);

}  // namespace pitcrew::desired
