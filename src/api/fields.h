// Readers of what several kinds of this room have in their specs.
#pragma once

#include <cstdint>
#include <string>

#include "api/block.h"
#include "api/cluster_policy.h"
#include "codec/json.h"

namespace pitcrew::api {

// Fragments that several blocks have (clusterpolicy-api.md section 2.7).
ImageSpec ReadImage(const Block& block);
void ReadComponent(const Block& block, Component& component);
DriverManager ReadDriverManager(const Block& block);
Probe ReadProbe(const Block& block);
// `auto_upgrade`: what leaving that member out means.
UpgradePolicy ReadUpgradePolicy(const Block& block, bool auto_upgrade);
// Members that spec.driver of a ClusterPolicy and spec of a NVIDIADriver have under one name.
void ReadCommonDriver(const Block& block, Driver& driver);

// Of any object of the API server's: name, uid, generation, creation timestamp.
struct ObjectHead {
  std::string name;
  std::string uid;
  std::int64_t generation = 0;
  std::string creation_timestamp;
};
ObjectHead ReadHead(const codec::Json& object);

}  // namespace pitcrew::api
