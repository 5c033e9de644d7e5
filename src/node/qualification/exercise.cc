#include "node/qualification/exercise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/strings.h"
#include "node/qualification/cuda.h"
#include "nvml/nvml.h"

namespace pitcrew::node::qualification {
namespace {

using cuda::Address;

constexpr std::size_t kMebi = std::size_t{1} << 20;
constexpr std::size_t kBlock = 64 * kMebi;    // what is copied at once
constexpr std::size_t kPiece = 1024 * kMebi;  // what is allocated at once
constexpr std::size_t kSmallestPiece = kMebi;

// A context on one of the GPUs that this process sees, current until there is another one.
class Session {
 public:
  // `visible`: how many it has to see. Those of CUDA_VISIBLE_DEVICES, in that order.
  static base::Result<Session> Open(int ordinal = 0, int visible = 1) {
    TRY_ASSIGN(const Cuda cuda, Cuda::Open());
    CUDA_TRY(cuda, cuInit, 0);
    int count = 0;
    CUDA_TRY(cuda, cuDeviceGetCount, &count);
    if (count != visible) {
      return base::Fail(base::Unavailable(
          "WrongGpuCount",
          fmt::format("CUDA sees {} GPUs where it should see {}", count, visible)));
    }
    Session session(cuda);
    cuda::Device device = 0;
    CUDA_TRY(cuda, cuDeviceGet, &device, ordinal);
    CUDA_TRY(cuda, cuCtxCreate, &session.context_, 0, device);
    return session;
  }
  ~Session() {
    if (context_ != nullptr) cuda_.cuCtxDestroy(context_);
  }
  Session(Session&& other) noexcept
      : cuda_(other.cuda_), context_(std::exchange(other.context_, nullptr)) {}
  Session& operator=(Session&&) = delete;

  [[nodiscard]] const Cuda& cuda() const { return cuda_; }
  [[nodiscard]] cuda::Context context() const { return context_; }
  [[nodiscard]] base::Status MakeCurrent() const {
    return cuda_.Check("cuCtxSetCurrent", cuda_.cuCtxSetCurrent(context_));
  }

 private:
  explicit Session(const Cuda& cuda) : cuda_(cuda) {}

  Cuda cuda_;
  cuda::Context context_ = nullptr;
};

// Memory of the GPU in pieces, given back at the end.
class DeviceMemory {
 public:
  explicit DeviceMemory(const Cuda& cuda) : cuda_(cuda) {}
  ~DeviceMemory() {
    for (const auto& piece : pieces_) cuda_.cuMemFree(piece.address);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  struct Piece {
    Address address = 0;
    std::size_t size = 0;
  };

  // As much of it as the GPU gives, in whole words.
  base::Status Allocate(std::uint64_t bytes) {
    std::size_t size = kPiece;
    while (size_ < bytes) {
      size = std::min<std::size_t>(size, bytes - size_) / sizeof(std::uint32_t) *
             sizeof(std::uint32_t);
      if (size == 0) break;
      Piece piece{0, size};
      const auto result = cuda_.cuMemAlloc(&piece.address, size);
      if (result == cuda::kOutOfMemory) {
        if (size <= kSmallestPiece) break;
        size /= 2;
        continue;
      }
      TRY(cuda_.Check("cuMemAlloc", result));
      pieces_.push_back(piece);
      size_ += size;
    }
    return {};
  }
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  const Cuda& cuda_;
  std::vector<Piece> pieces_;
  std::uint64_t size_ = 0;
};

// Memory of the host that the GPU reaches by itself.
class HostMemory {
 public:
  static base::Result<HostMemory> Allocate(const Cuda& cuda, std::size_t size) {
    HostMemory memory(cuda);
    CUDA_TRY(cuda, cuMemAllocHost, &memory.bytes_, size);
    return memory;
  }
  ~HostMemory() {
    if (bytes_ != nullptr) cuda_.cuMemFreeHost(bytes_);
  }
  HostMemory(HostMemory&& other) noexcept
      : cuda_(other.cuda_), bytes_(std::exchange(other.bytes_, nullptr)) {}
  HostMemory& operator=(HostMemory&&) = delete;

  [[nodiscard]] void* bytes() const { return bytes_; }
  [[nodiscard]] std::uint32_t* words() const { return static_cast<std::uint32_t*>(bytes_); }

 private:
  explicit HostMemory(const Cuda& cuda) : cuda_(cuda) {}

  const Cuda& cuda_;
  void* bytes_ = nullptr;
};

constexpr std::array<std::uint32_t, 4> kConstantPatterns = {0, 0xffffffff, 0xaaaaaaaa, 0x55555555};

// A number that differs from word to word (the finaliser of splitmix64, cut to a word).
std::uint32_t NumberOf(std::uint64_t word) {
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebULL;
  return static_cast<std::uint32_t>(word >> 31U);
}

// Of the threads that compare: one reads and compares some 4 GB in a second, a GPU's link carries
// 50. All GPUs of a node are tested at once, so they share its processors.
constexpr unsigned kMostThreads = 4;

// `work(first word, behind the last)` for parts of `words`, side by side.
template <class Work>
void InParts(std::size_t words, const Work& work) {
  const unsigned threads = std::clamp(std::thread::hardware_concurrency() / 2, 1U, kMostThreads);
  const std::size_t part = (words + threads - 1) / threads;
  std::vector<std::jthread> others;
  for (std::size_t first = part; first < words; first += part) {
    others.emplace_back([&work, first, end = std::min(first + part, words)] { work(first, end); });
  }
  work(0, std::min(part, words));
}

class MemoryTester {
 public:
  MemoryTester(const Cuda& cuda, const DeviceMemory& memory, const HostMemory& buffer)
      : cuda_(cuda), memory_(memory), buffer_(buffer) {}

  base::Result<MemoryTest> Run() {
    result_.tested = memory_.size();
    for (const auto pattern : kConstantPatterns) {
      for (const auto& piece : memory_.pieces()) {
        CUDA_TRY(cuda_, cuMemsetD32, piece.address, pattern, piece.size / sizeof(pattern));
      }
      TRY(Compare([pattern](std::uint64_t) { return pattern; }));
    }
    TRY(WriteNumbers());
    TRY(Compare(NumberOf));
    return result_;
  }

 private:
  // `visit(address, words, number of the first word)`.
  template <class Visit>
  base::Status ForEachBlock(const Visit& visit) {
    std::uint64_t first = 0;
    for (const auto& piece : memory_.pieces()) {
      for (std::size_t offset = 0; offset < piece.size; offset += kBlock) {
        const std::size_t words = std::min(kBlock, piece.size - offset) / sizeof(std::uint32_t);
        TRY(visit(piece.address + offset, words, first));
        first += words;
      }
    }
    return {};
  }

  base::Status WriteNumbers() {
    return ForEachBlock([&](Address address, std::size_t words, std::uint64_t first) {
      InParts(words, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) buffer_.words()[i] = NumberOf(first + i);
      });
      return cuda_.Check("cuMemcpyHtoD", cuda_.cuMemcpyHtoD(address, buffer_.bytes(),
                                                            words * sizeof(std::uint32_t)));
    });
  }

  template <class Expected>
  base::Status Compare(const Expected& expected) {
    ++result_.patterns;
    return ForEachBlock([&](Address address, std::size_t words, std::uint64_t first) {
      return CompareBlock(address, words, first, expected);
    });
  }

  template <class Expected>
  base::Status CompareBlock(Address address, std::size_t words, std::uint64_t first,
                            const Expected& expected) {
    CUDA_TRY(cuda_, cuMemcpyDtoH, buffer_.bytes(), address, words * sizeof(std::uint32_t));
    const std::span read(buffer_.words(), words);
    // The whole block at once, which the compiler does in wide registers; words are looked at only
    // where something is wrong.
    std::atomic<std::uint32_t> different = 0;
    InParts(words, [&](std::size_t begin, std::size_t end) {
      std::uint32_t of_part = 0;
      for (std::size_t i = begin; i < end; ++i) of_part |= read[i] ^ expected(first + i);
      different |= of_part;
    });
    if (different == 0) return {};
    for (std::size_t i = 0; i < words; ++i) {
      const std::uint32_t written = expected(first + i);
      if (read[i] == written) continue;
      ++result_.wrong_words;
      if (!result_.first) {
        result_.first = WrongWord{(first + i) * sizeof(std::uint32_t), written, read[i]};
      }
    }
    return {};
  }

  const Cuda& cuda_;
  const DeviceMemory& memory_;
  const HostMemory& buffer_;
  MemoryTest result_;
};

// Time on the GPU between two moments of its work.
class Stopwatch {
 public:
  static base::Result<Stopwatch> Create(const Cuda& cuda) {
    Stopwatch watch(cuda);
    CUDA_TRY(cuda, cuEventCreate, &watch.start_, 0);
    CUDA_TRY(cuda, cuEventCreate, &watch.end_, 0);
    return watch;
  }
  ~Stopwatch() {
    for (const auto event : {start_, end_}) {
      if (event != nullptr) cuda_.cuEventDestroy(event);
    }
  }
  Stopwatch(Stopwatch&& other) noexcept
      : cuda_(other.cuda_),
        start_(std::exchange(other.start_, nullptr)),
        end_(std::exchange(other.end_, nullptr)) {}
  Stopwatch& operator=(Stopwatch&&) = delete;

  // Seconds that `work` takes.
  template <class Work>
  base::Result<double> Measure(const Work& work) {
    CUDA_TRY(cuda_, cuEventRecord, start_, nullptr);
    TRY(work());
    CUDA_TRY(cuda_, cuEventRecord, end_, nullptr);
    CUDA_TRY(cuda_, cuEventSynchronize, end_);
    float milliseconds = 0;
    CUDA_TRY(cuda_, cuEventElapsedTime, &milliseconds, start_, end_);
    return static_cast<double>(milliseconds) / 1e3;
  }

 private:
  explicit Stopwatch(const Cuda& cuda) : cuda_(cuda) {}

  const Cuda& cuda_;
  cuda::Event start_ = nullptr;
  cuda::Event end_ = nullptr;
};

// Bytes a second of `copy`, which moves `bytes` each time: over as many copies as fit into a moment
// of the host's clock, after one that wakes GPU and link up.
template <class Copy>
base::Result<double> Rate(Stopwatch& watch, double bytes, const Copy& copy) {
  constexpr std::chrono::milliseconds kMoment{400};
  TRY(copy());
  double moved = 0;
  double seconds = 0;
  const auto until = base::SteadyClock::now() + kMoment;
  do {
    TRY_ASSIGN(const double taken, watch.Measure(copy));
    moved += bytes;
    seconds += taken;
  } while (base::SteadyClock::now() < until);
  if (seconds <= 0) {
    return base::Fail(base::Internal("NoTimePassed", "copies took no time on the GPU's clock"));
  }
  return moved / seconds;
}

// How many words of `buffer`, filled from the other GPU's memory, are not NumberOf their place.
base::Result<std::uint64_t> CountWrong(const Cuda& cuda, const HostMemory& buffer, Address from) {
  constexpr std::size_t kWords = kBlock / sizeof(std::uint32_t);
  std::fill_n(buffer.words(), kWords, 0);
  CUDA_TRY(cuda, cuMemcpyDtoH, buffer.bytes(), from, kBlock);
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < kWords; ++i) wrong += buffer.words()[i] != NumberOf(i) ? 1 : 0;
  return wrong;
}

template <class T>
std::optional<T> NumberIn(const nvml::Answer& answer) {
  if (const auto* number = std::get_if<std::int64_t>(&answer)) return static_cast<T>(*number);
  return std::nullopt;
}

base::Result<UnderLoad> ReadUnderLoad(nvml::Meter& meter, const std::string& uuid) {
  using nvml::Quantity;
  constexpr std::uint16_t kSmClock = 1;  // nvmlClockType_t
  const nvml::Part part{.gpu_instance = std::nullopt,
                        .mig_uuid = "",
                        .questions = {{Quantity::kClockReasons},
                                      {Quantity::kClock, kSmClock},
                                      {Quantity::kPcieGeneration},
                                      {Quantity::kPcieWidth},
                                      {Quantity::kMaxClock, kSmClock},
                                      {Quantity::kPcieMaxGeneration},
                                      {Quantity::kPcieMaxWidth}}};
  auto gpus = meter.Read({{uuid, {part}}});
  TRY_ASSIGN(const auto answers, std::move(gpus.at(0)));
  const auto& given = answers.parts.at(0).answers;
  return UnderLoad{.sm_clock_mhz = NumberIn<unsigned>(given.at(1)),
                   .highest_sm_clock_mhz = NumberIn<unsigned>(given.at(4)),
                   .clock_reasons = NumberIn<std::uint64_t>(given.at(0)),
                   .pcie_generation = NumberIn<unsigned>(given.at(2)),
                   .pcie_width = NumberIn<unsigned>(given.at(3)),
                   .highest_pcie_generation = NumberIn<unsigned>(given.at(5)),
                   .highest_pcie_width = NumberIn<unsigned>(given.at(6))};
}

}  // namespace

base::Result<Amount> ParseAmount(std::string_view text) {
  const auto refuse = [&] {
    return base::Fail(base::Invalid(
        "BadAmount",
        fmt::format("\"{}\" is no amount of memory; for example 90%, 16Gi or 512Mi", text)));
  };
  if (text.ends_with('%')) {
    const auto percent = base::ParseUnsigned(text.substr(0, text.size() - 1));
    if (!percent || *percent < 1 || *percent > 100) return refuse();
    return Amount{.share = static_cast<double>(*percent) / 100, .bytes = 0};
  }
  constexpr std::pair<std::string_view, unsigned> kUnits[] = {
      {"Ki", 10}, {"Mi", 20}, {"Gi", 30}, {"Ti", 40}};
  unsigned shift = 0;
  for (const auto& [unit, bits] : kUnits) {
    if (!text.ends_with(unit)) continue;
    shift = bits;
    text.remove_suffix(unit.size());
  }
  const auto number = base::ParseUnsigned(text);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50U;
  if (!number || *number < 1 || *number > (kMost >> shift)) return refuse();
  return Amount{.share = 0, .bytes = *number << shift};
}

base::Result<Exercise> TestMemory(const Amount& amount) {
  TRY_ASSIGN(const Session session, Session::Open());
  const Cuda& cuda = session.cuda();
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_TRY(cuda, cuMemGetInfo, &free, &total);
  // In whole words.
  const auto share = static_cast<std::uint64_t>(amount.share * static_cast<double>(free)) / 4 * 4;
  const std::uint64_t asked = amount.share > 0 ? share : amount.bytes;
  TRY_ASSIGN(const auto buffer, HostMemory::Allocate(cuda, kBlock));
  DeviceMemory memory(cuda);
  TRY(memory.Allocate(std::min<std::uint64_t>(asked, free)));
  TRY_ASSIGN(auto result, MemoryTester(cuda, memory, buffer).Run());
  result.asked = asked;
  Exercise exercise;
  exercise.memory = result;
  return exercise;
}

base::Result<Exercise> MeasureBandwidths(const std::string& uuid) {
  TRY_ASSIGN(const Session session, Session::Open());
  const Cuda& cuda = session.cuda();
  TRY_ASSIGN(const auto library, nvml::Library::Open({"/"}));
  const auto meter = library->MakeMeter();
  TRY_ASSIGN(const auto buffer, HostMemory::Allocate(cuda, kBlock));
  DeviceMemory memory(cuda);
  TRY(memory.Allocate(2 * kBlock));
  if (memory.size() < 2 * kBlock || memory.pieces().size() != 1) {
    return base::Fail(base::Unavailable(
        "NoGpuMemory", "the GPU has no 128 MiB of memory in one piece to measure with"));
  }
  const Address first = memory.pieces().front().address;
  const Address second = first + kBlock;
  std::fill_n(buffer.words(), kBlock / sizeof(std::uint32_t), 0);
  TRY_ASSIGN(auto watch, Stopwatch::Create(cuda));
  Bandwidths rates;
  TRY_ASSIGN(rates.to_device, Rate(watch, kBlock, [&] {
               return cuda.Check("cuMemcpyHtoD", cuda.cuMemcpyHtoD(first, buffer.bytes(), kBlock));
             }));
  TRY_ASSIGN(rates.from_device, Rate(watch, kBlock, [&] {
               return cuda.Check("cuMemcpyDtoH", cuda.cuMemcpyDtoH(buffer.bytes(), first, kBlock));
             }));
  constexpr int kCopies = 16;
  const auto copy_within = [&]() -> base::Status {
    for (int i = 0; i < kCopies; ++i) {
      CUDA_TRY(cuda, cuMemcpyDtoDAsync, second, first, kBlock, nullptr);
    }
    return {};
  };
  TRY_ASSIGN(rates.within_device, Rate(watch, 2.0 * kCopies * kBlock, copy_within));
  // Some milliseconds of copies are under way while NVML is asked.
  for (int i = 0; i < 4; ++i) TRY(copy_within());
  TRY_ASSIGN(const auto load, ReadUnderLoad(*meter, uuid));
  CUDA_TRY(cuda, cuCtxSynchronize);
  Exercise exercise;
  exercise.bandwidths = rates;
  exercise.load = load;
  return exercise;
}

base::Result<Exercise> MeasurePeerCopies() {
  TRY_ASSIGN(const Session sender, Session::Open(0, 2));
  TRY_ASSIGN(const Session receiver, Session::Open(1, 2));
  const Cuda& cuda = sender.cuda();
  DeviceMemory there(cuda);
  TRY(there.Allocate(kBlock));
  TRY(sender.MakeCurrent());
  DeviceMemory here(cuda);
  TRY(here.Allocate(kBlock));
  if (here.pieces().size() != 1 || there.pieces().size() != 1) {
    return base::Fail(base::Unavailable(
        "NoGpuMemory", "the GPUs have no 64 MiB of memory in one piece to copy with"));
  }
  const Address from = here.pieces().front().address;
  const Address to = there.pieces().front().address;
  TRY_ASSIGN(const auto buffer, HostMemory::Allocate(cuda, kBlock));
  for (std::size_t i = 0; i < kBlock / sizeof(std::uint32_t); ++i) buffer.words()[i] = NumberOf(i);
  CUDA_TRY(cuda, cuMemcpyHtoD, from, buffer.bytes(), kBlock);
  PeerCopy copy;
  copy.direct = cuda.cuCtxEnablePeerAccess(receiver.context(), 0) == cuda::kSuccess;
  constexpr int kCopies = 4;
  TRY_ASSIGN(auto watch, Stopwatch::Create(cuda));
  TRY_ASSIGN(copy.bytes_per_second, Rate(watch, 1.0 * kCopies * kBlock, [&]() -> base::Status {
               for (int i = 0; i < kCopies; ++i) {
                 CUDA_TRY(cuda, cuMemcpyPeerAsync, to, receiver.context(), from, sender.context(),
                          kBlock, nullptr);
               }
               return {};
             }));
  CUDA_TRY(cuda, cuCtxSynchronize);
  TRY(receiver.MakeCurrent());
  TRY_ASSIGN(copy.wrong_words, CountWrong(cuda, buffer, to));
  TRY(sender.MakeCurrent());
  Exercise exercise;
  exercise.peer = copy;
  return exercise;
}

}  // namespace pitcrew::node::qualification
