// The operator as a program.
#pragma once

namespace pitcrew::gpu_operator {

// Exit statuses.
constexpr int kFailure = 1;
constexpr int kUsage = 2;

// Works until SIGTERM or SIGINT. 0 when told to stop, 1 on failure (also when leadership is lost),
// 2 on wrong usage.
int Command(int argc, char** argv);

// Run by the chart's hooks (operator-behaviour.md section 17), and by people. 0 when done, 1 on
// failure, 2 on wrong usage.
int ManageCrdsCommand(int argc, char** argv);
int UninstallCommand(int argc, char** argv);
int CleanupGpuClustersCommand(int argc, char** argv);

}  // namespace pitcrew::gpu_operator
