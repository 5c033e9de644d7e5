#include "node/qualification/examine.h"

#include <fmt/format.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "base/deadline.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/process.h"
#include "node/qualification/health.h"
#include "nvml/guarded.h"

namespace pitcrew::node::qualification {
namespace {

// How long a killed process may take to end; one that the kernel waits for never does.
constexpr std::chrono::seconds kGrace{15};

std::atomic<bool> left_behind = false;

// What the process of a GPU said about itself.
base::Result<Exercise> ReadEnd(const host::ProgramEnd& end) {
  if (end.exit_status == 0) return ParseExercise(end.output);
  const auto told = codec::ParseJson(end.output, "the end of the process");
  std::string why = told ? codec::FindString(*told, {"error"}) : "";
  if (why.empty()) {
    why = fmt::format("the process that worked on the GPU ended with status {} {}", end.exit_status,
                      base::Trim(end.error_output));
  }
  return base::Fail(base::Unavailable("ExerciseFailed", std::string(base::Trim(why))));
}

// A process that works on one GPU, waited for on a thread that can be left behind.
class Helper {
 public:
  // `peer`: the UUID of a second GPU that the process sees; "" for none.
  Helper(const ExamineOptions& options, const std::string& uuid, std::string_view part,
         const io::StopToken& stop, const std::string& peer = "")
      : limit_(options.deadline), until_(base::Deadline::After(options.deadline)) {
    host::ProgramRun run;
    run.program = options.helper.at(0);
    run.arguments.assign(options.helper.begin() + 1, options.helper.end());
    for (const auto& word : {std::string("--gpu"), uuid, std::string("--part"), std::string(part),
                             std::string("--memory"), options.memory}) {
      run.arguments.push_back(word);
    }
    run.environment["CUDA_VISIBLE_DEVICES"] = peer.empty() ? uuid : uuid + "," + peer;
    run.capture_output = true;
    run.deadline = until_.at();
    run.stop_fd = stop.fd();
    std::promise<base::Result<host::ProgramEnd>> promise;
    end_ = promise.get_future();
    // `stop` keeps the descriptor open as long as the thread lives.
    std::thread([run, stop, promise = std::move(promise)]() mutable {
      promise.set_value(host::RunProgram(run));
    }).detach();
  }

  base::Result<Exercise> Wait() {
    if (end_.wait_until(until_.at() + kGrace) != std::future_status::ready) {
      left_behind = true;
      return base::Fail(base::Error{
          base::Code::kTimeout, "GpuHangs",
          "the process that works on the GPU cannot even be killed: the node needs a restart"});
    }
    const auto end = end_.get();
    if (end) return ReadEnd(*end);
    if (end.error().code != base::Code::kTimeout) return base::Fail(end.error());
    return base::Fail(
        base::Error{base::Code::kTimeout, "GpuHangs",
                    fmt::format("not done within {} s: the GPU hangs, or is very slow",
                                std::chrono::duration_cast<std::chrono::seconds>(limit_).count())});
  }

 private:
  const std::chrono::nanoseconds limit_;
  const base::Deadline until_;
  std::future<base::Result<host::ProgramEnd>> end_;
};

bool IsWhole(const Measurement& gpu) { return !gpu.unreadable && !gpu.divided; }

base::Error Divided() {
  return {base::Code::kUnsupported, "DividedByMig", "the GPU is divided by MIG"};
}

Measurement Describe(const gpu::Device& device) {
  Measurement gpu;
  gpu.index = device.index;
  gpu.uuid = device.uuid;
  gpu.name = device.name;
  gpu.pci = device.pci.SysfsName();
  gpu.pci_device_id = device.pci_device_id;
  gpu.divided = device.IsMigEnabled();
  gpu.unreadable = device.fault;
  if (gpu.divided) {
    gpu.memory = base::Fail(Divided());
    gpu.bandwidths = base::Fail(Divided());
  }
  return gpu;
}

// One with wrong memory would make its neighbours look wrong too.
bool Works(const Measurement& gpu) {
  return IsWhole(gpu) && gpu.bandwidths && gpu.memory && gpu.memory->memory &&
         gpu.memory->memory->wrong_words == 0;
}

// Each GPU to the next one that works, the last to the first: so each sends and receives once.
void CopyBetween(std::vector<Measurement>& gpus, const ExamineOptions& options,
                 const io::StopToken& stop) {
  std::vector<Measurement*> working;
  for (auto& gpu : gpus) {
    if (Works(gpu)) working.push_back(&gpu);
  }
  if (working.size() < 2) return;
  for (std::size_t i = 0; i < working.size() && !stop.stopped(); ++i) {
    const Measurement& peer = *working[(i + 1) % working.size()];
    working[i]->peer_index = peer.index;
    working[i]->peer = Helper(options, working[i]->uuid, kPeerPart, stop, peer.uuid).Wait();
  }
}

// Fails when it was told to stop: measurements that were cut off say nothing of a GPU.
base::Status Exercised(std::vector<Measurement>& gpus, const ExamineOptions& options,
                       const io::StopToken& stop) {
  std::vector<std::pair<Measurement*, std::unique_ptr<Helper>>> helpers;
  for (auto& gpu : gpus) {
    if (!IsWhole(gpu)) continue;
    helpers.emplace_back(&gpu, std::make_unique<Helper>(options, gpu.uuid, kMemoryPart, stop));
  }
  for (auto& [gpu, helper] : helpers) gpu->memory = helper->Wait();
  for (auto& gpu : gpus) {
    if (stop.stopped()) return base::Fail(stop.error());
    if (!IsWhole(gpu)) continue;
    // One that hangs is not tried again.
    if (!gpu.memory && gpu.memory.error().code == base::Code::kTimeout) {
      gpu.bandwidths = base::Fail(gpu.memory.error());
      continue;
    }
    gpu.bandwidths = Helper(options, gpu.uuid, kBandwidthsPart, stop).Wait();
  }
  CopyBetween(gpus, options, stop);
  if (stop.stopped()) return base::Fail(stop.error());
  return {};
}

struct Opened {
  std::shared_ptr<nvml::Library> library;
  gpu::Inventory inventory;
};

base::Result<Opened> Open(const ExamineOptions& options) {
  Opened opened;
  TRY_ASSIGN(opened.library, nvml::OpenGuarded(options.driver_roots));
  TRY_ASSIGN(opened.inventory, opened.library->ReadInventory());
  if (opened.inventory.devices.empty()) {
    return base::Fail(base::NotFound("NoGpus", "the driver shows no GPU here"));
  }
  if (options.even_if_used) return opened;
  std::vector<std::string> used;
  for (const auto& device : opened.inventory.devices) {
    if (device.fault) continue;
    const auto readings = opened.library->ReadReadings(device.uuid);
    if (!readings) continue;  // then the report says what is wrong with it
    for (const auto& process : readings->processes) {
      used.push_back(fmt::format("GPU {} by process {}{}", device.index, process.pid,
                                 process.name.empty() ? "" : " (" + process.name + ")"));
    }
  }
  if (!used.empty()) {
    return base::Fail(base::Error{
        base::Code::kConflict, "GpuInUse",
        fmt::format("GPUs are in use, and tests would disturb that: {}", base::Join(used, ", "))});
  }
  return opened;
}

}  // namespace

base::Result<Found> LookAtGpus(const ExamineOptions& options) {
  TRY_ASSIGN(const auto opened, Open(options));
  Found found{.driver_version = opened.inventory.driver_version, .uuids = {}};
  for (const auto& device : opened.inventory.devices) found.uuids.push_back(device.uuid);
  return found;
}

base::Result<Report> Examine(const ExamineOptions& options, const io::StopToken& stop) {
  const auto start = base::SteadyClock::now();
  TRY_ASSIGN(const auto opened, Open(options));
  const auto meter = opened.library->MakeMeter();
  const bool links_switched_off = AreNvLinksSwitchedOff(options.proc);
  std::vector<Measurement> gpus;
  for (const auto& device : opened.inventory.devices) {
    gpus.push_back(Describe(device));
    gpus.back().links_switched_off = links_switched_off;
    if (!device.fault) gpus.back().before = ReadHealth(*meter, device.uuid);
  }
  base::LogInfo("GPUs are examined", {{"gpus", gpus.size()}, {"memory", options.memory}});
  TRY(Exercised(gpus, options, stop));
  Report report;
  for (auto& gpu : gpus) {
    if (!gpu.unreadable) gpu.after = ReadHealth(*meter, gpu.uuid);
    report.gpus.push_back(Judge(gpu));
  }
  report.node = options.node;
  report.time = base::WallClock::now();
  const std::chrono::duration<double> taken = base::SteadyClock::now() - start;
  report.seconds = taken.count();
  report.driver_version = opened.inventory.driver_version;
  return report;
}

bool LeftProcessesBehind() { return left_behind; }

}  // namespace pitcrew::node::qualification
