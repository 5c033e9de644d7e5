#include "simulation/mps/control.h"

#include <charconv>
#include <cstdio>
#include <sstream>

namespace pitcrew::simulation {
namespace {

// "50.0", as the control program prints it.
std::string ShowPercentage(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

MpsControl::Answer Failed(const std::string& text) { return {text, true, false}; }

}  // namespace

const std::string* MpsControl::FindGpu(const std::string& device) const {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(device.data(), device.data() + device.size(), number);
  const bool good = error == std::errc{} && end == device.data() + device.size();
  return good && number < gpus_.size() ? &gpus_[number] : nullptr;
}

MpsControl::Answer MpsControl::SetMemoryLimit(const std::string& device, const std::string& limit) {
  const std::string* gpu = FindGpu(device);
  if (gpu == nullptr) return Failed("Invalid device: " + device);
  const auto bytes = ParseMemoryLimit(limit);
  if (!bytes) return Failed("Invalid memory limit: " + limit);
  defaults_.pinned_memory[*gpu] = *bytes;
  return {};
}

MpsLimits MpsControl::Attach(std::uint32_t pid) {
  server_ = true;
  clients_.emplace(pid, defaults_);
  return defaults_;
}

void MpsControl::Detach(std::uint32_t pid) {
  if (const auto found = clients_.find(pid); found != clients_.end()) clients_.erase(found);
}

MpsControl::Answer MpsControl::Handle(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::string command;
  std::string first;
  std::string second;
  words >> command >> first >> second;
  if (command.empty()) return {};
  if (command == "quit") return {"", false, true};
  if (command == "get_server_list") return {server_ ? std::to_string(pid_) : ""};
  if (command == "start_server") {
    server_ = true;
    return {};
  }
  if (command == "get_client_list") {
    std::string list;
    for (const auto& [pid, limits] : clients_) {
      list += (list.empty() ? "" : "\n") + std::to_string(pid);
    }
    return {list};
  }
  if (command == "get_default_active_thread_percentage") {
    return {ShowPercentage(defaults_.active_thread_percentage)};
  }
  if (command == "set_default_active_thread_percentage") {
    const auto value = ParseThreadPercentage(first);
    if (!value) return Failed("Invalid active thread percentage: " + first);
    defaults_.active_thread_percentage = *value;
    return {ShowPercentage(*value)};
  }
  if (command == "set_default_device_pinned_mem_limit") return SetMemoryLimit(first, second);
  if (command == "get_default_device_pinned_mem_limit") {
    const std::string* gpu = FindGpu(first);
    if (gpu == nullptr) return Failed("Invalid device: " + first);
    const auto found = defaults_.pinned_memory.find(*gpu);
    if (found == defaults_.pinned_memory.end()) return {"No limit set"};
    return {std::to_string(found->second >> 20) + "M"};
  }
  return Failed("Unknown command: " + command);
}

}  // namespace pitcrew::simulation
