// CDI specifications whose paths start at another root (container-toolkit.md 6.12).
#pragma once

#include <string>
#include <string_view>

#include "cdi/spec.h"

namespace pitcrew::cdi {

// Whose paths change: those of files on the host, or those that containers see.
enum class PathsOf { kHost, kContainer };

// Puts `to` in the place of `from` in every path that is `from` or lies below it, by whole parts:
// "/a/b" is no beginning of "/a/bc". "/" begins every absolute path. Arguments of hooks count for
// the side on which the hook runs, both halves of "target::link" for themselves.
void TransformRoot(Spec& spec, std::string_view from, std::string_view to, PathsOf paths);

// The same for one path.
std::string TransformPath(std::string_view path, std::string_view from, std::string_view to);

}  // namespace pitcrew::cdi
