// The competition of the candidates for one class of calls, without CUDA: which candidate carries out which call, and
// which one wins. Both follow from the number of the call and from records that all ranks have, so all ranks agree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccore_cuda {

constexpr size_t kMostCandidates = 4;
constexpr size_t kMostRounds = 64;

// Rank 0's, for all ranks.
struct Plan {
  uint32_t warmup;  // calls of the class before any is measured
  uint32_t rounds;  // measured calls of each candidate, at most kMostRounds; one more before them is not measured
  uint32_t margin;  // calls from one boundary, at which ranks may decide, to the next
};

struct Step {
  enum class Kind { kFallback, kTrial, kBoundary };
  Kind kind;
  size_t candidate;  // of a trial
  int round;  // of a trial; -1: not measured, because first calls of a candidate set up memory and connections
};

// number: of the call among the measured kind of call of the class, from 0. At a boundary the ranks decide before the
// call; without a decision the call is a fallback.
Step step_of(const Plan& plan, size_t candidates, uint32_t number);
inline uint32_t calls_of_trials(const Plan& plan, size_t candidates) {
  return static_cast<uint32_t>(candidates) * (plan.rounds + 1);
}

// What one rank saw.
struct Record {
  std::array<uint8_t, kMostCandidates> wrong{};  // 1: another result than the first candidate
  std::array<std::array<float, kMostRounds>, kMostCandidates> us{};  // 0: not measured
};

struct Verdict {
  size_t winner = 0;
  std::array<float, kMostCandidates> us{};  // medians of the slowest ranks' times; 0: not known
  std::array<int, kMostCandidates> wrong_on{};  // the first rank on which the result was another; -1: none
};

// The first candidate is the one to beat. Another wins if it was right on all ranks, its median is lower by more than
// kNoise, and it was faster in three of four rounds; so noise alone does not replace the first.
constexpr float kNoise = 0.03F;
Verdict decide(const std::vector<Record>& of_ranks, size_t candidates, size_t rounds);

}  // namespace ccore_cuda
