// What is wrong with an object's fields, as problems of a plan.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "plan/plan.h"

namespace pitcrew::plan {

// Each field once, by the first of the lists that names it: "spec.driver.env[0]" and
// "spec.driver.env" are one. `whose` stands before the path; "" for the policy.
std::vector<Problem> ProblemsOfFields(std::string_view whose,
                                      std::initializer_list<std::vector<api::FieldProblem>> lists);

}  // namespace pitcrew::plan
