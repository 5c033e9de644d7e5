// What a running process tells of itself: its command line, its parent, the unit of systemd that it
// belongs to. `proc` is where procfs is mounted.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace pitcrew::node::toolkit {

// Empty where it cannot be read.
std::vector<std::string> CommandLineOf(const std::filesystem::path& proc, pid_t pid);
// 0 where it is not known.
pid_t ParentOf(const std::filesystem::path& proc, pid_t pid);
// "k3s-agent.service", from the control group; empty without one.
std::string UnitOf(const std::filesystem::path& proc, pid_t pid);

// Value of one of these flags, as "--config X" or "--config=X"; empty when there is none.
std::string OptionOf(const std::vector<std::string>& words,
                     std::initializer_list<std::string_view> names);

}  // namespace pitcrew::node::toolkit
