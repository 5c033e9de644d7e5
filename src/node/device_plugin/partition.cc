#include "node/device_plugin/partition.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>

namespace pitcrew::node::device_plugin {
namespace {

using Mask = std::uint32_t;

constexpr std::size_t kMostMembers = 16;

std::vector<std::size_t> Members(Mask set) {
  std::vector<std::size_t> members;
  for (; set != 0; set &= set - 1) {
    members.push_back(static_cast<std::size_t>(std::countr_zero(set)));
  }
  return members;
}

// Exact, by remembering the best division of every remainder. The first remaining member always
// belongs to the next set, so few remainders ever occur.
class Divider {
 public:
  explicit Divider(const PartitionProblem& problem)
      : problem_(problem),
        size_(static_cast<int>(problem.size)),
        small_size_(static_cast<int>(problem.scores.size() % problem.size)) {
    for (const auto member : problem.required) required_ |= Mask{1} << member;
  }

  std::vector<std::size_t> Solve() {
    Remainder remainder{.members = (Mask{1} << problem_.scores.size()) - 1,
                        .small_set_due = small_size_ != 0};
    if (!Best(remainder)) return {};
    Mask best = 0;
    int best_score = -1;
    while (remainder.members != 0) {
      const Mask set = best_.at(remainder)->set;
      const bool complete = std::popcount(set) == size_;
      if (complete && (set & required_) == required_ && Score(set) > best_score) {
        best = set;
        best_score = Score(set);
      }
      remainder = Without(remainder, set);
    }
    return Members(best);
  }

 private:
  // What is still to be divided; at most one set is smaller than the others.
  struct Remainder {
    Mask members = 0;
    bool small_set_due = false;
    auto operator<=>(const Remainder&) const = default;
  };
  struct Division {
    Mask set = 0;   // the set of the first remaining member
    int score = 0;  // of this set and of the best division of the rest
  };

  [[nodiscard]] Remainder Without(const Remainder& remainder, Mask set) const {
    return {.members = remainder.members & ~set,
            .small_set_due = remainder.small_set_due && std::popcount(set) == size_};
  }

  [[nodiscard]] int Score(Mask set) const {
    int score = 0;
    for (Mask left = set; left != 0; left &= left - 1) {
      const auto& row = problem_.scores[static_cast<std::size_t>(std::countr_zero(left))];
      for (Mask other = left & (left - 1); other != 0; other &= other - 1) {
        score += row[static_cast<std::size_t>(std::countr_zero(other))];
      }
    }
    return score;
  }

  // Required members stay together, and in a complete set.
  [[nodiscard]] bool Allowed(Mask set) const {
    const Mask required = set & required_;
    return required == 0 || (required == required_ && std::popcount(set) == size_);
  }

  // Null when `remainder` cannot be divided.
  std::optional<Division> Best(const Remainder& remainder) {
    if (const auto found = best_.find(remainder); found != best_.end()) return found->second;
    std::optional<Division> best;
    if (remainder.members == 0) {
      best = Division();
    } else {
      const Mask first = remainder.members & (~remainder.members + 1);
      Grow(first, remainder.members & ~first, remainder, best);
    }
    best_[remainder] = best;
    return best;
  }

  // Completes `set` with members of `candidates` in lexicographic order; the smaller set, whose
  // missing members upstream numbers last, comes behind all that begin like it.
  void Grow(Mask set, Mask candidates, const Remainder& remainder, std::optional<Division>& best) {
    if (std::popcount(set) == size_) return Consider(set, remainder, best);
    for (Mask left = candidates; left != 0; left &= left - 1) {
      const Mask next = left & (~left + 1);
      Grow(set | next, left & ~next, remainder, best);
    }
    if (remainder.small_set_due && std::popcount(set) == small_size_) {
      Consider(set, remainder, best);
    }
  }

  void Consider(Mask set, const Remainder& remainder, std::optional<Division>& best) {
    if (!Allowed(set)) return;
    const auto rest = Best(Without(remainder, set));
    if (!rest) return;
    const int score = Score(set) + rest->score;
    if (!best || score > best->score) best = Division{.set = set, .score = score};
  }

  const PartitionProblem& problem_;
  const int size_;
  const int small_size_;  // 0: everything divides evenly
  Mask required_ = 0;
  std::map<Remainder, std::optional<Division>> best_;
};

std::vector<std::size_t> GrowOneSet(const PartitionProblem& problem) {
  std::vector<std::size_t> set = problem.required;
  if (set.empty()) set.push_back(0);
  while (set.size() < problem.size) {
    std::size_t best = 0;
    int best_score = -1;
    for (std::size_t member = 0; member < problem.scores.size(); ++member) {
      if (std::ranges::find(set, member) != set.end()) continue;
      int score = 0;
      for (const auto other : set) score += problem.scores[member][other];
      if (score > best_score) {
        best = member;
        best_score = score;
      }
    }
    set.push_back(best);
  }
  std::ranges::sort(set);
  return set;
}

}  // namespace

std::vector<std::size_t> BestSet(const PartitionProblem& problem) {
  if (problem.scores.size() > kMostMembers) return GrowOneSet(problem);
  return Divider(problem).Solve();
}

}  // namespace pitcrew::node::device_plugin
