#include "prom/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::prom {
namespace {

// Seconds since the epoch at which this process started; 0 when unknown.
double StartTime(const std::vector<std::string>& stat) {
  const auto text = base::ReadFile("/proc/stat");
  if (!text || stat.size() < 20) return 0;
  for (const std::string& line : base::Split(*text, '\n')) {
    if (!line.starts_with("btime ")) continue;
    const auto boot = base::ParseDouble(line.substr(6));
    const auto ticks = base::ParseDouble(stat[19]);
    if (boot && ticks) return *boot + *ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }
  return 0;
}

}  // namespace

void ExposeProcess(Exposition& exposition) {
  // Behind the program's name, which may hold spaces.
  std::vector<std::string> stat;
  if (const auto text = base::ReadFile("/proc/self/stat")) {
    const auto end = text->rfind(')');
    if (end != std::string::npos) stat = base::SplitTrimmed(text->substr(end + 1), ' ');
  }
  const auto number = [&](std::size_t index) {
    return index < stat.size() ? base::ParseDouble(stat[index]).value_or(0) : 0;
  };
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (stat.size() > 21) {
    exposition.AddCounter("process_cpu_seconds_total", "Processor time, user and system",
                          (number(11) + number(12)) / ticks);
    exposition.AddGauge("process_virtual_memory_bytes", "Virtual memory", number(20));
    exposition.AddGauge("process_resident_memory_bytes", "Resident memory",
                        number(21) * static_cast<double>(::sysconf(_SC_PAGESIZE)));
    if (const double start = StartTime(stat); start > 0) {
      exposition.AddGauge("process_start_time_seconds", "Unix time of the start", start);
    }
  }
  std::error_code error;
  std::size_t open = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    ++open;
  }
  if (!error) {
    exposition.AddGauge("process_open_fds", "Open file descriptors", static_cast<double>(open));
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    exposition.AddGauge("process_max_fds", "File descriptors that may be open",
                        static_cast<double>(limit.rlim_cur));
  }
}

}  // namespace pitcrew::prom
