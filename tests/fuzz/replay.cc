// The targets without a fuzzing engine, for `make test`: every input of the corpus, then a fixed
// number of changed ones, the same in every run.
//
//   fuzz_targets TARGET CORPUS [RUNS] [SEED]     or --list
//
// An input on which the program ends is left in fuzz-<target>.input for a look at it.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz/target.h"

// Of the sanitizers' run time (sanitizer/common_interface_defs.h), where the program has one.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace pitcrew::fuzz {
namespace {

constexpr std::size_t kLongest = 64 * 1024;
constexpr int kSecondsForOne = 20;

// What the handlers below write down.
std::string_view current;
std::string finding;

void KeepInput() {
  const int fd = ::open(finding.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  if (::write(fd, current.data(), current.size()) >= 0) {
    const std::string_view said = "fuzz: the input is kept in ";
    (void)!::write(STDERR_FILENO, said.data(), said.size());
    (void)!::write(STDERR_FILENO, finding.data(), finding.size());
    (void)!::write(STDERR_FILENO, "\n", 1);
  }
  ::close(fd);
}

void OnSignal(int number) {
  KeepInput();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void RunOne(const Target& target, std::string_view input) {
  current = input;
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = kSecondsForOne, .tv_usec = 0}};
  ::setitimer(ITIMER_REAL, &limit, nullptr);
  target.run(input);
}

std::vector<std::string> ReadCorpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, unsigned seed) : corpus_(corpus), random_(seed) {}

  std::string Next() {
    std::string text = Any();
    for (std::size_t left = 1 + Below(6); left > 0; --left) Change(text);
    if (text.size() > kLongest) text.resize(kLongest);
    return text;
  }

 private:
  std::size_t Below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& Any() { return corpus_[Below(corpus_.size())]; }

  void Change(std::string& text) {
    const std::size_t at = Below(text.size() + 1);
    const std::size_t length = Below(std::min<std::size_t>(text.size() - at, 32) + 1);
    switch (Below(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << Below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(Below(256));
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(Below(256)));
        break;
      case 3:
        text.erase(at, length);
        break;
      case 4:
        text.insert(Below(text.size() + 1), text.substr(at, length));
        break;
      case 5: {
        const std::string& other = Any();
        const std::size_t from = Below(other.size() + 1);
        text.insert(at, other, from, Below(std::min<std::size_t>(other.size() - from, 64) + 1));
        break;
      }
      case 6:  // numbers at their borders
        for (std::size_t i = 0; i < 4 && at + i < text.size(); ++i) {
          text[at + i] = static_cast<char>(Below(2) == 0 ? 0xff : 0);
        }
        break;
      default:
        text.resize(at);
        break;
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937 random_;
};

int Replay(const Target& target, const std::filesystem::path& folder, int runs, unsigned seed) {
  finding = "fuzz-" + std::string(target.name) + ".input";
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(KeepInput);
  for (const int number : {SIGABRT, SIGALRM}) std::signal(number, OnSignal);
  const auto corpus = ReadCorpus(folder);
  if (corpus.empty()) {
    std::fprintf(stderr, "fuzz: %s has no inputs\n", folder.c_str());
    return 1;
  }
  for (const auto& input : corpus) RunOne(target, input);
  Mutator mutator(corpus, seed);
  for (int i = 0; i < runs; ++i) RunOne(target, mutator.Next());
  std::printf("fuzz: %s: %zu inputs of the corpus, %d changed ones\n",
              std::string(target.name).c_str(), corpus.size(), runs);
  return 0;
}

}  // namespace
}  // namespace pitcrew::fuzz

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "--list") {
    pitcrew::fuzz::PrintTargets();
    return 0;
  }
  const auto* target = words.size() < 2 ? nullptr : pitcrew::fuzz::FindTarget(words[0]);
  if (target == nullptr) {
    std::fputs("usage: fuzz_targets TARGET CORPUS [RUNS] [SEED], or --list for the targets\n",
               stderr);
    return 2;
  }
  return pitcrew::fuzz::Replay(*target, words[1], words.size() > 2 ? std::stoi(words[2]) : 1000,
                               words.size() > 3 ? static_cast<unsigned>(std::stoul(words[3])) : 1);
}
