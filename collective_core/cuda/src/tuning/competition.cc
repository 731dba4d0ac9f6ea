#include "tuning/competition.h"

#include <algorithm>
#include <numeric>

namespace ccore_cuda {
namespace {

using Rounds = std::array<float, kMostRounds>;

// An operation has ended when it has ended on the slowest rank.
Rounds slowest(const std::vector<Record>& of_ranks, size_t candidate, size_t rounds) {
  Rounds result{};
  for (size_t round = 0; round < rounds; ++round) {
    for (const Record& record : of_ranks) {
      const float us = record.us[candidate][round];
      if (!(us > 0)) {  // a rank that could not measure it; NaN too
        result[round] = 0;
        break;
      }
      result[round] = std::max(result[round], us);
    }
  }
  return result;
}

// 0 if fewer than half of the rounds were measured.
float median(const Rounds& us, size_t rounds) {
  std::vector<float> known;
  std::copy_if(us.begin(), us.begin() + static_cast<std::ptrdiff_t>(rounds), std::back_inserter(known),
               [](float one) { return one > 0; });
  if (known.empty() || 2 * known.size() < rounds) return 0;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end());
  return *middle;
}

bool mostly_faster(const Rounds& one, const Rounds& other, size_t rounds) {
  size_t both = 0, faster = 0;
  for (size_t round = 0; round < rounds; ++round) {
    if (one[round] <= 0 || other[round] <= 0) continue;
    ++both;
    if (one[round] < other[round]) ++faster;
  }
  return both > 0 && 4 * faster >= 3 * both;
}

}  // namespace

Step step_of(const Plan& plan, size_t candidates, uint32_t number) {
  const uint32_t trials = calls_of_trials(plan, candidates);
  if (number < trials) {
    // Each round begins with another candidate, so that none always follows the same one.
    const size_t round = number / candidates;
    return {Step::Kind::kTrial, (number + round) % candidates, static_cast<int>(round) - 1};
  }
  const bool boundary = number > trials && (number - trials) % plan.margin == 0;
  return {boundary ? Step::Kind::kBoundary : Step::Kind::kFallback, 0, -1};
}

Verdict decide(const std::vector<Record>& of_ranks, size_t candidates, size_t rounds) {
  Verdict verdict;
  std::vector<Rounds> us;
  for (size_t candidate = 0; candidate < candidates; ++candidate) {
    us.push_back(slowest(of_ranks, candidate, rounds));
    verdict.us[candidate] = median(us.back(), rounds);
    const auto found = std::find_if(of_ranks.begin(), of_ranks.end(),
                                    [&](const Record& record) { return record.wrong[candidate] != 0; });
    verdict.wrong_on[candidate] = found == of_ranks.end() ? -1 : static_cast<int>(found - of_ranks.begin());
  }
  const float to_beat = verdict.us[0] * (1 - kNoise);
  float best = to_beat;
  for (size_t candidate = 1; candidate < candidates; ++candidate) {
    const bool eligible =
        verdict.wrong_on[candidate] < 0 && verdict.us[candidate] > 0 && mostly_faster(us[candidate], us[0], rounds);
    if (!eligible || verdict.us[candidate] >= best) continue;
    best = verdict.us[candidate];
    verdict.winner = candidate;
  }
  return verdict;
}

}  // namespace ccore_cuda
