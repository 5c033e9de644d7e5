#include "host/children.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

#include "base/file.h"
#include "base/strings.h"
#include "host/root.h"

namespace pitcrew::host {
namespace {

// 0 for a text that is no number.
pid_t ToPid(std::string_view text) {
  pid_t pid = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), pid);
  return problem == std::errc() && end == text.data() + text.size() ? pid : 0;
}

// Of /proc/<pid>/stat (proc(5)): "12 (name with ) and spaces) S 1 ...".
bool IsRunningChild(std::string_view stat, pid_t parent) {
  const auto end = stat.rfind(')');
  if (end == std::string_view::npos) return false;
  const auto fields = base::Split(base::Trim(stat.substr(end + 1)), ' ');
  return fields.size() > 1 && fields[0] != "Z" && fields[0] != "X" && ToPid(fields[1]) == parent;
}

}  // namespace

base::Status AdoptOrphans() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0) return {};
  return base::Fail(base::FromErrno(errno, "become the parent of left processes"));
}

base::Result<std::vector<pid_t>> ListChildren(pid_t parent, const std::filesystem::path& proc) {
  TRY_ASSIGN(const auto names, ListFolder(proc));
  std::vector<pid_t> children;
  for (const auto& name : names) {
    const pid_t pid = ToPid(name);
    if (pid == 0) continue;
    const auto stat = base::ReadFile(proc / name / "stat");
    if (stat && IsRunningChild(*stat, parent)) children.push_back(pid);
    // One that has ended meanwhile is none.
    if (!stat && stat.error().code != base::Code::kNotFound) return base::Fail(stat.error());
  }
  std::ranges::sort(children);
  return children;
}

base::Result<bool> WasStartedWith(pid_t pid, std::string_view variable,
                                  const std::filesystem::path& proc) {
  const auto variables = base::ReadFile(proc / std::to_string(pid) / "environ");
  if (!variables && variables.error().code == base::Code::kNotFound) return false;
  if (!variables) return base::Fail(variables.error());
  const auto all = base::Split(*variables, '\0');
  return std::ranges::find(all, variable) != all.end();
}

}  // namespace pitcrew::host
