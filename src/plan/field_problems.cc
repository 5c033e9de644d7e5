#include "plan/field_problems.h"

#include <algorithm>
#include <set>

namespace pitcrew::plan {

std::vector<Problem> ProblemsOfFields(std::string_view whose,
                                      std::initializer_list<std::vector<api::FieldProblem>> lists) {
  const std::string before = whose.empty() ? "" : std::string(whose) + ": ";
  std::vector<Problem> problems;
  std::set<std::string> told;
  for (const auto& list : lists) {
    std::vector<std::string> paths;
    for (const api::FieldProblem& problem : list) {
      const auto begins = [&](const std::string& path) { return path.starts_with(problem.path); };
      if (std::ranges::any_of(told, begins)) continue;
      problems.push_back({.where = before + problem.path, .message = problem.message});
      paths.push_back(problem.path);
    }
    told.insert(paths.begin(), paths.end());
  }
  return problems;
}

}  // namespace pitcrew::plan
