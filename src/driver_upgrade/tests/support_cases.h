// Cases of the decisions as data: tests/data/<kind>/<folder>/expected.yaml holds `cases`, each what
// is seen and, under `then`, what is to be done.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "api/cluster_policy.h"
#include "codec/json.h"
#include "desired/node.h"

namespace pitcrew::driver_upgrade::testing {

using codec::Json;

// spec.driver.upgradePolicy, as the API server hands it out.
api::UpgradePolicy PolicyOf(const Json& upgrade_policy);

// {name, state, unschedulable, ready, labels, annotations}; annotations by short names.
Json NodeOf(const Json& brief);
// "jobs-start" -> the annotation's key.
std::string KeyNamed(const std::string& brief);
std::string BriefOf(const std::string& key);

// Runs every case of every folder below tests/data/<kind>.
void RunCases(const std::string& kind, const std::function<Json(const Json& given)>& decide);

}  // namespace pitcrew::driver_upgrade::testing
