// What a hook gives up before it touches files that a container's image has chosen. The first line
// of defence is how paths are resolved (container_root.h); this is the second, for the case that
// the hook itself has a fault.
#pragma once

#include "base/result.h"
#include "shim/container_root.h"

namespace pitcrew::shim {

enum class Task {
  kFiles,   // makes and reads files of the container
  kModes,   // changes modes as well, also of what others own
  kMounts,  // puts a mount into the container's tree
};

// For good and for this process: the environment (a runtime hands on the container's own where a
// specification gives none), privileges beyond those of the task, those that a program could give
// back, memory without end, and being looked into through /proc by processes of the container's
// PID namespace, which could reach the host's files that way.
base::Status GiveUpPrivileges(Task task);

// From now on the kernel refuses this process every file that is not below `root`, to execute
// anything, and to mount. A kernel without Landlock (before 5.13, or switched off) lets it be.
base::Status ConfineTo(const ContainerRoot& root);

// From now on the kernel refuses this process calls that the task has no use for, with EPERM: other
// programs and processes, sockets, modes and owners by path, mounts, namespaces, kernel modules. A
// kernel without seccomp filters lets it be.
base::Status ForbidCalls(Task task);

}  // namespace pitcrew::shim
