#include "nvml/guarded.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "nvml/library.h"
#include "nvml/loaded_meter.h"
#include "nvml/patient_calls.h"

namespace pitcrew::nvml {
namespace {

using base::Result;

std::atomic<int> hanging_calls{0};

// What concerns the driver as a whole.
constexpr const char* kDriverKey = "";

class GuardedLibrary final : public Library, public std::enable_shared_from_this<GuardedLibrary> {
 public:
  GuardedLibrary(std::shared_ptr<LoadedLibrary> library, std::chrono::milliseconds limit)
      : library_(std::move(library)), limit_(limit), calls_(library_) {}

  [[nodiscard]] const std::filesystem::path& path() const override { return library_->path(); }

  Result<gpu::Inventory> ReadInventory() override {
    TRY_ASSIGN(auto inventory, ReadDriver());
    const auto until = Until();
    std::vector<PatientCalls::Pending<gpu::Device>> pending;
    for (const auto& device : inventory.devices) {
      pending.push_back(StartDevice(device.index, until));
    }
    for (std::size_t i = 0; i < pending.size(); ++i) {
      auto device = pending[i].Wait(until);
      if (device) {
        inventory.devices[i] = *std::move(device);
      } else {
        inventory.devices[i].fault = device.error();
      }
    }
    const std::lock_guard lock(mutex_);
    for (const auto& device : inventory.devices) {
      if (!device.uuid.empty()) keys_[device.uuid] = KeyOf(device.index);
    }
    return inventory;
  }

  Result<gpu::Inventory> ReadDriver() override {
    return Driver<gpu::Inventory>("read what the driver has",
                                  [](Library& library) { return library.ReadDriver(); });
  }

  gpu::Device ReadDevice(unsigned index) override {
    const auto until = Until();
    auto device = StartDevice(index, until).Wait(until);
    if (device) return *std::move(device);
    gpu::Device faulty;
    faulty.index = index;
    faulty.fault = device.error();
    return faulty;
  }

  Result<gpu::Topology> ReadTopology(const gpu::Inventory& inventory) override {
    // A pair is one call: who hangs is found out first, by a call of its own for each.
    auto answering = inventory;
    for (auto& device : answering.devices) {
      if (device.fault || device.uuid.empty()) continue;
      if (auto answers = Probe(device.uuid); !answers) device.fault = answers.error();
    }
    return CollectTopology(answering, [&](unsigned from, const std::vector<unsigned>& to) {
      return ReadConnections(answering, from, to);
    });
  }

  Result<std::vector<gpu::Connection>> ReadConnections(const gpu::Inventory& inventory,
                                                       unsigned from,
                                                       const std::vector<unsigned>& to) override {
    using Connections = std::vector<gpu::Connection>;
    const auto& uuid = inventory.devices[from].uuid;
    // A pair hangs when either does: that must not be held against this GPU's other calls.
    return calls_.Run<Connections>(
        "topology of " + uuid, fmt::format("read the topology of GPU {}", uuid),
        [library = library_, inventory, from, to] {
          return library->ReadConnections(inventory, from, to);
        },
        Until());
  }

  Result<Readings> ReadReadings(std::string_view uuid) override {
    return Gpu<Readings>(uuid, "read", [uuid = std::string(uuid)](Library& library) {
      return library.ReadReadings(uuid);
    });
  }

  std::shared_ptr<Meter> MakeMeter() override;

  Result<Condition> ReadCondition(std::string_view uuid) override {
    return Gpu<Condition>(
        uuid, "read the condition of",
        [uuid = std::string(uuid)](Library& library) { return library.ReadCondition(uuid); });
  }

  Result<std::string> DriverVersion() override {
    return Driver<std::string>("read the driver's version",
                               [](Library& library) { return library.DriverVersion(); });
  }

  Result<int> CudaVersion() override {
    return Driver<int>("read the CUDA version",
                       [](Library& library) { return library.CudaVersion(); });
  }

  Result<std::unique_ptr<EventSet>> CreateEventSet() override;

  base::Status Probe(std::string_view uuid) override {
    return Status(uuid, "reach",
                  [uuid = std::string(uuid)](Library& library) { return library.Probe(uuid); });
  }

  base::Status SetComputeMode(std::string_view uuid, ComputeMode mode) override {
    return Status(uuid, "set the compute mode of",
                  [uuid = std::string(uuid), mode](Library& library) {
                    return library.SetComputeMode(uuid, mode);
                  });
  }

  // What is changed through it is not guarded.
  Result<std::unique_ptr<MigControl>> OpenMig(std::string_view uuid) override {
    return library_->OpenMig(uuid);
  }

  // Reads of several GPUs at the same time.
  std::vector<Result<GpuAnswers>> ReadMeters(
      const std::vector<std::pair<std::string, std::function<Result<GpuAnswers>()>>>& reads) {
    const auto until = Until();
    std::vector<PatientCalls::Pending<GpuAnswers>> pending;
    pending.reserve(reads.size());
    for (const auto& [uuid, read] : reads) {
      pending.push_back(
          calls_.Start<GpuAnswers>(KeyOf(uuid), fmt::format("measure GPU {}", uuid), read, until));
    }
    std::vector<Result<GpuAnswers>> answers;
    answers.reserve(pending.size());
    for (auto& one : pending) answers.push_back(one.Wait(until));
    return answers;
  }

  base::Status Status(std::string_view uuid, std::string_view what,
                      std::function<base::Status(Library&)> call) {
    using Nothing = std::monostate;
    const auto done =
        Gpu<Nothing>(uuid, what, [call = std::move(call)](Library& library) -> Result<Nothing> {
          TRY(call(library));
          return Nothing();
        });
    if (!done) return base::Fail(done.error());
    return {};
  }

 private:
  static std::string KeyOf(unsigned index) { return std::to_string(index); }
  [[nodiscard]] PatientCalls::TimePoint Until() const {
    return std::chrono::steady_clock::now() + limit_;
  }

  // One GPU is one key, whatever it is called by.
  std::string KeyOf(std::string_view uuid) {
    std::string key(uuid);
    const std::lock_guard lock(mutex_);
    const auto found = keys_.find(key);
    return found != keys_.end() ? found->second : key;
  }

  PatientCalls::Pending<gpu::Device> StartDevice(unsigned index, PatientCalls::TimePoint until) {
    return calls_.Start<gpu::Device>(
        KeyOf(index), fmt::format("read GPU {}", index),
        [library = library_, index]() -> Result<gpu::Device> { return library->ReadDevice(index); },
        until);
  }

  template <class T, class Call>
  Result<T> Driver(std::string what, Call call) {
    return calls_.Run<T>(
        kDriverKey, std::move(what),
        [library = library_, call = std::move(call)]() -> Result<T> { return call(*library); },
        Until());
  }

  template <class T, class Call>
  Result<T> Gpu(std::string_view uuid, std::string_view what, Call call) {
    return calls_.Run<T>(
        KeyOf(uuid), fmt::format("{} GPU {}", what, uuid),
        [library = library_, call = std::move(call)]() -> Result<T> { return call(*library); },
        Until());
  }

  const std::shared_ptr<LoadedLibrary> library_;
  const std::chrono::milliseconds limit_;
  PatientCalls calls_;
  std::mutex mutex_;
  std::map<std::string, std::string> keys_;  // by UUID; guarded by mutex_
};

// Registration asks the GPU; waiting is a thread of the set's own already.
class GuardedEventSet final : public EventSet {
 public:
  GuardedEventSet(GuardedLibrary& library, std::shared_ptr<EventSet> set)
      : library_(library), set_(std::move(set)) {}

  base::Status Register(std::string_view uuid, std::uint64_t mask) override {
    return library_.Status(uuid, "watch the events of",
                           [set = set_, uuid = std::string(uuid), mask](Library&) {
                             return set->Register(uuid, mask);
                           });
  }
  Result<Event> Wait(int stop_fd, std::optional<std::chrono::milliseconds> timeout) override {
    return set_->Wait(stop_fd, timeout);
  }

 private:
  GuardedLibrary& library_;
  const std::shared_ptr<EventSet> set_;
};

Result<std::unique_ptr<EventSet>> GuardedLibrary::CreateEventSet() {
  using Set = std::shared_ptr<EventSet>;
  TRY_ASSIGN(auto set, Driver<Set>("make an event set", [](Library& library) -> Result<Set> {
               TRY_ASSIGN(auto made, library.CreateEventSet());
               return Set(std::move(made));
             }));
  return std::make_unique<GuardedEventSet>(*this, std::move(set));
}

// A call that is left behind keeps the GPU's history; while it hangs, no other call is made for
// that GPU, so that nobody else uses it.
class GuardedMeter final : public Meter {
 public:
  GuardedMeter(std::shared_ptr<GuardedLibrary> guard, std::shared_ptr<LoadedLibrary> library)
      : guard_(std::move(guard)), library_(std::move(library)) {}

  std::vector<Result<GpuAnswers>> Read(const std::vector<GpuQuestions>& gpus) override {
    std::vector<std::pair<std::string, std::function<Result<GpuAnswers>()>>> reads;
    std::map<std::string, std::shared_ptr<GpmHistory>> kept;
    for (const auto& gpu : gpus) {
      auto& history = kept[gpu.uuid];
      if (const auto known = histories_.find(gpu.uuid); known != histories_.end()) {
        history = known->second;
      }
      if (!history) history = std::make_shared<GpmHistory>(library_);
      reads.emplace_back(gpu.uuid, [library = library_, history, gpu] {
        return ReadParts(*library, *history, gpu);
      });
    }
    histories_ = std::move(kept);
    return guard_->ReadMeters(reads);
  }

 private:
  const std::shared_ptr<GuardedLibrary> guard_;
  const std::shared_ptr<LoadedLibrary> library_;
  std::map<std::string, std::shared_ptr<GpmHistory>> histories_;
};

std::shared_ptr<Meter> GuardedLibrary::MakeMeter() {
  return std::make_shared<GuardedMeter>(shared_from_this(), library_);
}

}  // namespace

base::Error HangError(std::string_view what) {
  return {
      base::Code::kTimeout, "NvmlHangs",
      fmt::format("NVML does not return from the call to {}; a GPU that hangs needs a reset, or "
                  "the node a restart",
                  what)};
}

void AddHangingCalls(int change) { hanging_calls += change; }

bool HasHangingCalls() { return hanging_calls > 0; }

PatientCalls::PatientCalls(std::shared_ptr<void> keep) : shared_(std::make_shared<Shared>()) {
  shared_->keep = std::move(keep);
}

bool PatientCalls::Take(Shared& shared, const std::string& key, TimePoint until) {
  std::unique_lock lock(shared.mutex);
  while (true) {
    const auto call = shared.calls.find(key);
    if (call == shared.calls.end()) {
      shared.calls[key] = false;
      return true;
    }
    if (call->second) return false;
    if (shared.released.wait_until(lock, until) == std::cv_status::timeout) return false;
  }
}

void PatientCalls::Release(Shared& shared, const std::string& key) {
  const std::lock_guard lock(shared.mutex);
  shared.calls.erase(key);
  shared.released.notify_all();
}

void PatientCalls::GiveUp(Shared& shared, const std::string& key) {
  AddHangingCalls(1);
  const std::lock_guard lock(shared.mutex);
  // The call may have ended in this moment.
  if (const auto call = shared.calls.find(key); call != shared.calls.end()) call->second = true;
  shared.released.notify_all();
  if (std::exchange(shared.kept_for_ever, true)) return;
  // Never freed: a thread may be in its code until the process ends.
  static std::mutex mutex;
  static auto& left_behind = *new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock_left_behind(mutex);
  left_behind.push_back(shared.keep);
}

Result<std::shared_ptr<Library>> OpenGuarded(const std::vector<std::filesystem::path>& driver_roots,
                                             const GuardOptions& options) {
  using Opened = std::shared_ptr<LoadedLibrary>;
  // A driver that hangs already is asked once: each attempt would leave a thread behind.
  static PatientCalls opening(nullptr);
  const auto until = std::chrono::steady_clock::now() + options.limit;
  TRY_ASSIGN(auto library,
             opening.Run<Opened>(
                 kDriverKey, "initialise NVML",
                 [driver_roots] { return LoadedLibrary::Find(driver_roots); }, until));
  return std::make_shared<GuardedLibrary>(std::move(library), options.limit);
}

}  // namespace pitcrew::nvml
