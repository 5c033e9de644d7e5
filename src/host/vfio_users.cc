#include "host/vfio_users.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::host {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "/dev/vfio/";

bool IsGone(const base::Error& error) {
  return error.code == base::Code::kNotFound || error.code == base::Code::kGone;
}

// Below /dev/vfio, without the container node that every user has.
base::Result<std::set<std::string>> OpenNodes(const fs::path& process) {
  std::set<std::string> nodes;
  const auto folder = process / "fd";
  const auto descriptors = ListFolder(folder);
  if (!descriptors) {
    if (IsGone(descriptors.error())) return nodes;
    return base::Fail(
        base::Error{base::Code::kDenied, "ProcessesHidden",
                    fmt::format("cannot see which processes use virtual machines' devices ({}): {}",
                                folder.string(), descriptors.error().message)});
  }
  for (const auto& descriptor : *descriptors) {
    std::error_code error;
    const auto target = fs::read_symlink(folder / descriptor, error).string();
    if (error || !target.starts_with(kFolder)) continue;
    auto node = target.substr(kFolder.size());
    if (node != "vfio") nodes.insert(std::move(node));
  }
  return nodes;
}

VfioUser Describe(const fs::path& process, int pid) {
  VfioUser user{.pid = pid, .program = {}, .machine = {}};
  if (const auto name = base::ReadFile(process / "comm")) user.program = base::Trim(*name);
  if (const auto line = base::ReadFile(process / "cmdline")) user.machine = GuestName(*line);
  return user;
}

}  // namespace

std::string VfioUser::ToString() const {
  const auto& name = program.empty() ? std::string("a program") : program;
  if (machine.empty()) return fmt::format("{} (process {})", name, pid);
  return fmt::format("{} (process {}, virtual machine {})", name, pid, machine);
}

base::Result<std::map<std::string, std::vector<VfioUser>>> ListVfioUsers(const Root& root) {
  std::map<std::string, std::vector<VfioUser>> users;
  const auto processes = root.At("/proc");
  TRY_ASSIGN(const auto names, ListFolder(processes));
  std::vector<int> pids;
  for (const auto& name : names) {
    if (const auto pid = base::ParseUnsigned(name)) pids.push_back(static_cast<int>(*pid));
  }
  std::ranges::sort(pids);
  for (const int pid : pids) {
    const auto process = processes / std::to_string(pid);
    TRY_ASSIGN(const auto nodes, OpenNodes(process));
    if (nodes.empty()) continue;
    const auto user = Describe(process, pid);
    for (const auto& node : nodes) users[node].push_back(user);
  }
  return users;
}

base::Result<std::vector<std::string>> VfioNodes(const fs::path& device) {
  std::vector<std::string> nodes;
  const auto group = ReadLink(device / "iommu_group");
  if (group) nodes.push_back(fs::path(*group).filename().string());
  if (!group && !IsGone(group.error())) return base::Fail(group.error());
  const auto character_devices = ListFolder(device / "vfio-dev");
  if (!character_devices) {
    if (IsGone(character_devices.error())) return nodes;
    return base::Fail(character_devices.error());
  }
  for (const auto& name : *character_devices) nodes.push_back("devices/" + name);
  return nodes;
}

std::string GuestName(std::string_view command_line) {
  const auto words = base::Split(command_line, '\0');
  const auto option = std::ranges::find(words, "-name");
  if (option == words.end() || option + 1 == words.end()) return "";
  for (const auto& part : base::Split(*(option + 1), ',')) {
    if (part.starts_with("guest=")) return part.substr(6);
  }
  const auto first = base::Split(*(option + 1), ',').front();
  return first.find('=') == std::string::npos ? first : "";
}

}  // namespace pitcrew::host
