// What a real board answered to every call of NVML that was tried, against the simulated one with
// the same description: tests/data/read/<profile>.yaml.
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "simulation/tests/support_readings.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {
namespace {

// "GetEccMode -> u u = 1 1", as the files explain it.
struct Question {
  std::string function;
  std::vector<unsigned long> arguments;
  std::vector<std::string> outs;  // "u", "l", "s", or a structure's members: "vuu"
  std::string expected;
};

Question ParseQuestion(const std::string& text) {
  Question row;
  std::istringstream words(text);
  words >> row.function;
  for (std::string word; words >> word && word != "->";) {
    row.arguments.push_back(std::stoul(word));
  }
  std::string word;
  for (bool inside = false; words >> word && word != "=";) {
    const bool opens = word.front() == '(';
    if (opens || !inside) row.outs.emplace_back();
    inside = (inside || opens) && word.back() != ')';
    for (const char kind : word) {
      if (std::string_view("uslv").find(kind) != std::string_view::npos) {
        row.outs.back().push_back(kind);
      }
    }
  }
  std::getline(words >> std::ws, row.expected);
  EXPECT_FALSE(row.expected.empty()) << text;
  return row;
}

constexpr std::size_t kTextSize = 96;

// Memory that a function writes to, and what stands in it afterwards.
class Out {
 public:
  explicit Out(std::string members) : members_(std::move(members)) {
    if (members_.front() != 'v') return;
    const auto version = static_cast<unsigned>(Size() | 1u << 24);
    std::memcpy(bytes_.data(), &version, sizeof(version));
  }
  [[nodiscard]] bool IsText() const { return members_ == "s"; }
  unsigned long Address() { return reinterpret_cast<unsigned long>(bytes_.data()); }

  // The members without the version.
  [[nodiscard]] std::vector<std::string> Values() const {
    if (IsText()) return {bytes_.data()};
    std::vector<std::string> values;
    std::size_t at = 0;
    for (const char kind : members_) {
      at = Aligned(at, Width(kind));
      unsigned long long number = 0;
      std::memcpy(&number, bytes_.data() + at, Width(kind));
      at += Width(kind);
      if (kind != 'v') values.push_back(std::to_string(number));
    }
    return values;
  }

 private:
  static std::size_t Width(char kind) { return kind == 'l' ? 8 : 4; }
  static std::size_t Aligned(std::size_t at, std::size_t to) { return (at + to - 1) / to * to; }
  [[nodiscard]] std::size_t Size() const {
    std::size_t at = 0;
    std::size_t widest = 4;
    for (const char kind : members_) {
      at = Aligned(at, Width(kind)) + Width(kind);
      widest = std::max(widest, Width(kind));
    }
    return Aligned(at, widest);
  }

  std::string members_;
  alignas(8) std::array<char, 256> bytes_{};
};

class ReadBoard : public ReadingNvml {
 protected:
  // In the C calling convention every argument has a register of its own, as wide as these.
  std::string Ask(const Question& row) {
    const bool of_system = row.function.starts_with("System");
    std::vector<Out> outs(row.outs.begin(), row.outs.end());
    std::vector<unsigned long> arguments;
    if (!of_system) arguments.push_back(reinterpret_cast<unsigned long>(Gpu(0)));
    arguments.insert(arguments.end(), row.arguments.begin(), row.arguments.end());
    for (auto& out : outs) {
      arguments.push_back(out.Address());
      if (out.IsText()) arguments.push_back(kTextSize);
    }
    EXPECT_LE(arguments.size(), 6u);
    arguments.resize(6);
    const auto code =
        Call(((of_system ? "nvml" : "nvmlDevice") + row.function).c_str(), arguments[0],
             arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    if (code != kSuccess) return "error " + std::to_string(code);
    std::vector<std::string> values;
    for (const auto& out : outs) {
      for (auto& value : out.Values()) values.push_back(std::move(value));
    }
    return base::Join(values, " ");
  }

  // "3 0", "1 error 3": type, and value or return code.
  std::string AskField(unsigned id) {
    const FieldValue value = Field(Gpu(0), id);
    std::string answer = std::to_string(value.value_type) + " ";
    if (value.nvml_return != kSuccess) return answer + "error " + std::to_string(value.nvml_return);
    if (value.value_type == kValueSignedInt) return answer + std::to_string(value.value.as_int);
    return answer + std::to_string(value.value_type == kValueUnsignedInt
                                       ? value.value.as_unsigned
                                       : value.value.as_unsigned_long_long);
  }
};

// Word by word; * stands for whatever was answered, alone for all of it.
bool Fits(const std::string& answer, const std::string& expected) {
  if (expected == "*") return !answer.starts_with("error");
  const auto got = base::Split(answer, ' ');
  const auto wanted = base::Split(expected, ' ');
  if (got.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (wanted[i] != "*" && wanted[i] != got[i]) return false;
  }
  return true;
}

// Each file of what was read, its description started.
class EveryReadBoard : public ReadBoard {
 protected:
  void ForEach(const std::function<void(const YAML::Node& board)>& check) {
    std::size_t boards = 0;
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(test_support::TestData()) + "/read")) {
      SCOPED_TRACE(file.path().filename().string());
      const YAML::Node board = YAML::LoadFile(file.path().string());
      Start(board["description"].as<std::string>());
      check(board);
      EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
      ++boards;
    }
    EXPECT_GT(boards, 0u);
  }
};

TEST_F(EveryReadBoard, AnswersAsTheRealOneDid) {
  ForEach([&](const YAML::Node& board) {
    for (const auto& line : board["calls"]) {
      const Question row = ParseQuestion(line.as<std::string>());
      const std::string answer = Ask(row);
      EXPECT_TRUE(Fits(answer, row.expected)) << line.as<std::string>() << ", ours: " << answer;
    }
  });
}

TEST_F(EveryReadBoard, HasTheFieldValuesOfTheRealOne) {
  ForEach([&](const YAML::Node& board) {
    for (const auto& line : board["fields"]) {
      const auto text = line.as<std::string>();
      const auto space = text.find(' ');
      const auto numbers = base::Split(text.substr(0, space), '-');
      const std::string expected = text.substr(space + 1);
      for (auto id = std::stoul(numbers.front()); id <= std::stoul(numbers.back()); ++id) {
        const std::string answer = AskField(static_cast<unsigned>(id));
        EXPECT_TRUE(Fits(answer, expected))
            << "field " << id << ": " << expected << ", ours: " << answer;
      }
    }
  });
}

// A lower clock of the memory can be chosen, with clocks of the multiprocessors for it.
TEST_F(EveryReadBoard, HasTheClocksAndStatesOfTheRealOne) {
  ForEach([&](const YAML::Node& board) {
    std::array<unsigned, 200> listed{};
    std::vector<unsigned> memory_clocks;
    for (const auto& entry : board["memory_clocks"]) {
      memory_clocks.push_back(entry.first.as<unsigned>());
      unsigned count = listed.size();
      ASSERT_EQ(Call("nvmlDeviceGetSupportedGraphicsClocks", Gpu(0), memory_clocks.back(), &count,
                     listed.data()),
                kSuccess);
      EXPECT_EQ(listed[0], entry.second.as<unsigned>());
    }
    unsigned count = listed.size();
    ASSERT_EQ(Call("nvmlDeviceGetSupportedMemoryClocks", Gpu(0), &count, listed.data()), kSuccess);
    EXPECT_EQ(std::vector<unsigned>(listed.begin(), listed.begin() + count), memory_clocks);

    // What is behind the last one is unknown (32).
    auto states = board["performance_states"].as<std::vector<unsigned>>();
    std::array<unsigned, 16> slots{};
    states.resize(slots.size(), 32);
    ASSERT_EQ(Call("nvmlDeviceGetSupportedPerformanceStates", Gpu(0), slots.data(),
                   static_cast<unsigned>(sizeof(slots))),
              kSuccess);
    EXPECT_EQ(std::vector<unsigned>(slots.begin(), slots.end()), states);
  });
}

// The description's links that are switched off belong to no fabric either.
TEST_F(ReadBoard, LinksThatAreSwitchedOffAreInNoFabric) {
  Start("gpus: [{profile: H200, nvlink: {peers: none, links: 0}}, {profile: H200}]");
  GpuFabricInfo info{};
  EXPECT_EQ(Call("nvmlDeviceGetGpuFabricInfo", Gpu(0), &info), kNotSupported);
  EXPECT_EQ(Call("nvmlDeviceGetGpuFabricInfo", Gpu(1), &info), kSuccess);
  EXPECT_EQ(FieldReturn(Gpu(0), field::kNvLinkLinkCount), kNotSupported);
  EXPECT_EQ(Number(Gpu(1), field::kNvSwitchConnectedLinks), 18u);
}

// The structure of a profile comes back without its version.
TEST_F(ReadBoard, AProfilesVersionIsTakenAway) {
  Start("gpus: [{profile: H200}]");
  GpuInstanceProfileInfoV2 info{};
  info.version = kGpuInstanceProfileInfoV2;
  ASSERT_EQ(Call("nvmlDeviceGetGpuInstanceProfileInfoV", Gpu(0), 0u, &info), kSuccess);
  EXPECT_STREQ(info.name, "MIG 1g.18gb");
  EXPECT_EQ(info.version, 0u);
  EXPECT_EQ(Call("nvmlDeviceGetGpuInstanceProfileInfoV", Gpu(0), 1u, &info),
            kArgumentVersionMismatch);
}

}  // namespace
}  // namespace pitcrew::simulation
