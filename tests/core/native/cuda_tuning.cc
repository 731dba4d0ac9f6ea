// The tuner of CUDA calls without CUDA: ranks are threads that run ahead of each other, events end late, and costs are
// made up.
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <thread>

#include "cases.h"
#include "expect.h"
#include "ranks.h"
#include "tuning/call_class.h"
#include "tuning/kept_choices.h"
#include "tuning/trials.h"

namespace test {
namespace {

using namespace ccore_cuda;

constexpr Plan kPlan{20, 16, 16};
constexpr size_t kCandidates = 3;

// Times of each candidate in each round, on one rank.
Record times(const std::vector<float>& us) {
  Record record;
  for (size_t candidate = 0; candidate < us.size(); ++candidate) {
    for (size_t round = 0; round < kPlan.rounds; ++round) record.us[candidate][round] = us[candidate];
  }
  return record;
}

Verdict verdict_of(const std::vector<Record>& of_ranks) { return decide(of_ranks, kCandidates, kPlan.rounds); }

void every_candidate_has_its_rounds() {
  std::vector<std::vector<int>> rounds(kCandidates);
  std::vector<size_t> first_of_round;
  const uint32_t trials = calls_of_trials(kPlan, kCandidates);
  for (uint32_t number = 0; number < trials; ++number) {
    const Step step = step_of(kPlan, kCandidates, number);
    EXPECT(step.kind == Step::Kind::kTrial && step.candidate < kCandidates, number);
    if (number % kCandidates == 0) first_of_round.push_back(step.candidate);
    rounds[step.candidate].push_back(step.round);
  }
  for (const auto& of_one : rounds) {
    EXPECT(of_one.size() == kPlan.rounds + 1, of_one.size());
    for (int round = 0; round <= static_cast<int>(kPlan.rounds); ++round) {
      EXPECT(of_one[static_cast<size_t>(round)] == round - 1, round);
    }
  }
  for (size_t round = 1; round < first_of_round.size(); ++round) {
    EXPECT(first_of_round[round] != first_of_round[round - 1], "round ", round);
  }
  EXPECT(step_of(kPlan, kCandidates, trials).kind == Step::Kind::kFallback, "");
  EXPECT(step_of(kPlan, kCandidates, trials + kPlan.margin).kind == Step::Kind::kBoundary, "");
  EXPECT(step_of(kPlan, kCandidates, trials + kPlan.margin + 1).kind == Step::Kind::kFallback, "");
}

void the_faster_one_wins_by_the_slowest_rank() {
  const Verdict verdict = verdict_of({times({100, 90, 60}), times({95, 50, 80})});
  EXPECT(verdict.winner == 2, verdict.winner);  // 80 against 90
  EXPECT(verdict.us[0] == 100 && verdict.us[1] == 90 && verdict.us[2] == 80, verdict.us[2]);
}

void less_than_noise_keeps_the_first() {
  EXPECT(verdict_of({times({100, 98, 97.5F})}).winner == 0, "");
  EXPECT(verdict_of({times({100, 98, 96})}).winner == 2, "");
  EXPECT(verdict_of({times({100, 100, 130})}).winner == 0, "");
}

// Equal candidates with noise of 20 %: of many competitions, almost none may replace the first.
void noise_alone_rarely_wins() {
  std::mt19937 random(20261128);
  std::lognormal_distribution<float> noise(0, 0.2F);
  int replaced = 0, found = 0;
  for (int competition = 0; competition < 1000; ++competition) {
    Record equal = times({100, 100, 100}), better = times({100, 100, 70});
    for (size_t candidate = 0; candidate < kCandidates; ++candidate) {
      for (size_t round = 0; round < kPlan.rounds; ++round) {
        equal.us[candidate][round] *= noise(random);
        better.us[candidate][round] *= noise(random);
      }
    }
    if (verdict_of({equal}).winner != 0) ++replaced;
    if (verdict_of({better}).winner == 2) ++found;
  }
  EXPECT(replaced < 80, replaced, " of 1000");
  EXPECT(found > 900, found, " of 1000");
}

void a_wrong_candidate_never_wins() {
  std::vector<Record> records = {times({100, 50, 60}), times({100, 50, 60})};
  records[1].wrong[1] = 1;
  const Verdict verdict = verdict_of(records);
  EXPECT(verdict.winner == 2 && verdict.wrong_on[1] == 1 && verdict.wrong_on[2] == -1, verdict.winner);
  records[0].wrong[2] = 1;
  EXPECT(verdict_of(records).winner == 0, "");
}

void missing_times_are_no_times() {
  std::vector<Record> records = {times({100, 50, 60}), times({100, 50, 60})};
  for (size_t round = 0; round < 9; ++round) records[1].us[1][round] = 0;
  EXPECT(verdict_of(records).winner == 2, "fewer than half of the rounds");
  for (size_t round = 0; round < kPlan.rounds; ++round) records[0].us[0][round] = 0;
  EXPECT(verdict_of(records).winner == 0, "without a time to beat, the first stays");
  records[0].us[0].fill(std::numeric_limits<float>::quiet_NaN());
  EXPECT(verdict_of(records).winner == 0, "not a number");
}

// A rank as the tuner drives it. Its events end some calls after the last trial, and it stands still now and then.
struct Seen {
  uint32_t number = 0;
  size_t winner = 0;
  size_t waits = 0;
};

Seen run_rank(std::vector<SharedRecord*> shared_records, int rank, const Record& record, uint32_t late, unsigned seed) {
  std::mt19937 random(seed);
  Trials trials(kPlan, kCandidates, std::move(shared_records), rank);
  const uint32_t ends = calls_of_trials(kPlan, kCandidates) + late;
  Seen seen;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  for (uint32_t number = 0;; ++number) {
    const auto turn = trials.next(
        [&](Record* own) {
          *own = record;
          return number >= ends;
        },
        [&](size_t other) {
          ++seen.waits;
          EXPECT(std::chrono::steady_clock::now() < deadline, "rank ", rank, " waits for rank ", other);
          std::this_thread::yield();
        });
    EXPECT(turn.number == number, number);
    if (turn.verdict) {
      seen.number = number;
      seen.winner = turn.verdict->winner;
      return seen;
    }
    EXPECT(number < 10000, "no decision");
    if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
  }
}

void ranks_decide_before_the_same_call() {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const int ranks = 2 + round % 4;
    const auto memory = std::make_unique<SharedRecord[]>(static_cast<size_t>(ranks));
    std::vector<SharedRecord*> shared_records;
    std::vector<Record> records;
    std::vector<uint32_t> late;
    for (int rank = 0; rank < ranks; ++rank) {
      shared_records.push_back(&memory[static_cast<size_t>(rank)]);
      records.push_back(times({100, 60 + static_cast<float>(random() % 100), 60 + static_cast<float>(random() % 100)}));
      late.push_back(static_cast<uint32_t>(random() % 50));
    }
    std::vector<Seen> seen(static_cast<size_t>(ranks));
    run_threads(ranks, [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      seen[at] = run_rank(shared_records, rank, records[at], late[at], static_cast<unsigned>(round * 16 + rank));
    });
    const size_t expected = verdict_of(records).winner;
    for (const Seen& one : seen) {
      EXPECT(one.number == seen[0].number, one.number, " and ", seen[0].number);
      EXPECT(one.winner == expected, one.winner, " and ", expected);
    }
  }
}

// A rank that is less than a margin behind is never waited for.
void ranks_in_step_do_not_wait() {
  SharedRecord memory[2]{};
  std::vector<SharedRecord*> shared_records = {&memory[0], &memory[1]};
  Trials ahead(kPlan, kCandidates, shared_records, 0), behind(kPlan, kCandidates, shared_records, 1);
  const auto collect = [](Record* own) {
    *own = times({100, 50, 60});
    return true;
  };
  const auto patience = [](size_t rank) { EXPECT(false, "waits for rank ", rank); };
  const uint32_t last = calls_of_trials(kPlan, kCandidates) + 2 * kPlan.margin;
  std::optional<uint32_t> decided[2];
  for (uint32_t number = 0; number <= last + kPlan.margin; ++number) {
    if (ahead.next(collect, patience).verdict && !decided[0]) decided[0] = number;
    if (number >= kPlan.margin - 1 && behind.next(collect, patience).verdict && !decided[1]) {
      decided[1] = number - (kPlan.margin - 1);
    }
  }
  EXPECT(decided[0] && decided[0] == decided[1], "");
}

void classes_have_numbers() {
  for (int index = 0; index < kCallClasses; ++index) EXPECT(class_of_index(index).index() == index, index);
  EXPECT(class_of(0, CC_FLOAT32, 1023).size == 9 && class_of(0, CC_FLOAT32, 1024).size == 10, "");
  EXPECT(class_of(1, CC_FLOAT8_E5M2, 64).type == 2, "");
  EXPECT(class_of(0, CC_BFLOAT16, 64).type == 2 && class_of(2, CC_BFLOAT16, 64).type == 0, "");
  EXPECT(class_of(0, CC_INT64, std::numeric_limits<size_t>::max()).size == kSizeClasses - 1, "");
  for (int collective = 0; collective < kCollectives; ++collective) {
    EXPECT(collective_of(name_of_collective(collective)) == collective, collective);
  }
  EXPECT(collective_of("gather") == -1, "");
}

void choices_outlive_a_job() {
  char folder[] = "/tmp/ccore-cuda-choices-XXXXXX";
  EXPECT(mkdtemp(folder) != nullptr, "");
  setenv("CCORE_CACHE_DIR", folder, 1);
  const ccore::CacheIdentity identity{"a GPU, compute capability 9.0", "nccl 22809", "2 ranks with MPS"};
  {
    KeptChoices first(identity, false), second(identity, false);
    EXPECT(first.found().empty(), "");
    first.keep({{0, 1, 20}, "packets", 3.5});
    second.keep({{2, 0, 10}, "nccl", 7});  // another job, which has not seen it
  }
  const KeptChoices later(identity, false);
  EXPECT(later.found().size() == 2, later.found().size());
  for (const KeptChoice& one : later.found()) {
    const bool known = (one.of.index() == CallClass{0, 1, 20}.index() && one.by == "packets" && one.us == 3.5) ||
                       (one.of.index() == CallClass{2, 0, 10}.index() && one.by == "nccl");
    EXPECT(known, one.by);
  }
  KeptChoices unchanged(identity, false), renewed(identity, true);
  unchanged.keep({{0, 1, 20}, "buffers", 1});
  EXPECT(KeptChoices(identity, false).found().size() == 2, "an existing file is left as it is");
  renewed.keep({{0, 1, 20}, "buffers", 1});
  const KeptChoices last(identity, false);
  EXPECT(last.found().size() == 2, last.found().size());
  for (const KeptChoice& one : last.found()) EXPECT(one.by != "packets", one.by);
  ccore::CacheIdentity other = identity;
  other.library = "nccl 23007";
  EXPECT(KeptChoices(other, false).found().empty(), "of another NCCL");
  const std::string path = std::string(folder) + "/cuda-" + identity.file_name();
  std::ofstream(path, std::ios::app) << "choice all_reduce 3 1 packets 1\n";
  KeptChoices damaged(identity, false);
  EXPECT(damaged.found().empty(), "a damaged file counts as missing");
  damaged.keep({{1, 1, 5}, "slots", 2});
  EXPECT(KeptChoices(identity, false).found().size() == 1, "and is replaced");
  std::filesystem::remove_all(folder);
  unsetenv("CCORE_CACHE_DIR");
}

}  // namespace

void cuda_tuning() {
  every_candidate_has_its_rounds();
  the_faster_one_wins_by_the_slowest_rank();
  less_than_noise_keeps_the_first();
  noise_alone_rarely_wins();
  a_wrong_candidate_never_wins();
  missing_times_are_no_times();
  classes_have_numbers();
  ranks_in_step_do_not_wait();
  ranks_decide_before_the_same_call();
  choices_outlive_a_job();
}

}  // namespace test
