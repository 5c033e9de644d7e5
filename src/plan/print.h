// A plan as text. Equal plans give equal bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace pitcrew::plan {

enum class Format { kYaml, kJson, kTable, kDiff };

// Every object that would stand afterwards, a document each, in the plan's order. Of an uninstall
// the objects that would be deleted, by identity; nodes stay and are not among them.
std::string ToYaml(const Plan& plan, bool uninstall);
// The same as a List.
std::string ToJson(const Plan& plan, bool uninstall);
// One line per object and node, and a summary.
std::string ToTable(const Plan& plan);
// What would change, with the fields and the reason, and a summary. Nodes whose change is the same
// stand together.
std::string ToDiff(const Plan& plan);

// "Plan: 3 to create, 1 to change, 0 to delete; 40 stand as wanted."
std::string Summary(const Plan& plan);

}  // namespace pitcrew::plan
