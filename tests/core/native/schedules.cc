// Schedules of 1 to 64 ranks: proved on sets, and their cost against the documented formulas.
#include <algorithm>
#include <functional>
#include <vector>

#include "cases.h"
#include "expect.h"
#include "schedule/schedules.h"
#include "symbolic.h"

namespace test {
namespace {

using ccore::Schedule;

constexpr int kMostRanks = 64;

std::vector<Schedule> for_all(int p, const std::function<Schedule(int)>& make) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < p; ++rank) schedules.push_back(make(rank));
  return schedules;
}

int log2_up(int p) {
  int rounds = 0;
  while ((1 << rounds) < p) ++rounds;
  return rounds;
}

const std::vector<int>& held(const SymbolicRun& run, int rank, int block) {
  return run.holds[static_cast<size_t>(rank)][static_cast<size_t>(block)];
}

void expect_once_each(const std::vector<int>& counts) {
  EXPECT(std::all_of(counts.begin(), counts.end(), [](int n) { return n == 1; }), "not every contribution once");
}

void expect_only(const std::vector<int>& counts, int contributor) {
  for (size_t i = 0; i < counts.size(); ++i) {
    EXPECT(counts[i] == (static_cast<int>(i) == contributor ? 1 : 0), "contributor ", i);
  }
}

// An average is divided where a block is complete: once per block, nowhere else.
void expect_one_last_reduce_per_block(const std::vector<Schedule>& schedules) {
  std::vector<int> last(schedules.size());
  for (const Schedule& schedule : schedules) {
    for (const ccore::Step& step : schedule.steps) {
      if (step.completes) ++last[static_cast<size_t>(step.recv_block)];
    }
  }
  if (schedules.size() > 1) expect_once_each(last);
}

void rings(int p) {
  const auto all_reduce = for_all(p, [p](int rank) { return ccore::ring_all_reduce(rank, p); });
  const auto reduce_scatter = for_all(p, [p](int rank) { return ccore::ring_reduce_scatter(rank, p); });
  const auto all_gather = for_all(p, [p](int rank) { return ccore::ring_all_gather(rank, p); });
  const SymbolicRun reduced = run_from_full_input(all_reduce);
  const SymbolicRun scattered = run_from_full_input(reduce_scatter);
  const SymbolicRun gathered = run_from_own_block(all_gather);
  for (const SymbolicRun* run : {&reduced, &scattered, &gathered}) EXPECT(run->problem.empty(), run->problem);
  for (int rank = 0; rank < p; ++rank) {
    for (int block = 0; block < p; ++block) {
      expect_once_each(held(reduced, rank, block));
      expect_only(held(gathered, rank, block), block);
    }
    expect_once_each(held(scattered, rank, rank));
  }
  expect_one_last_reduce_per_block(all_reduce);
  expect_one_last_reduce_per_block(reduce_scatter);
  EXPECT(reduced.rounds == 2 * (p - 1), "all_reduce of ", p, " ranks took ", reduced.rounds);
  EXPECT(scattered.rounds == p - 1, "reduce_scatter took ", scattered.rounds);
  EXPECT(gathered.rounds == p - 1, "all_gather took ", gathered.rounds);
  const auto n = static_cast<size_t>(p);
  for (const Schedule& schedule : all_reduce) {
    EXPECT(elements_sent(schedule, 60 * n) == 2 * (n - 1) * 60, "all_reduce bytes");
  }
  for (const Schedule& schedule : reduce_scatter) EXPECT(elements_sent(schedule, 60 * n) == (n - 1) * 60, "bytes");
  for (const Schedule& schedule : all_gather) EXPECT(elements_sent(schedule, 60 * n) == (n - 1) * 60, "bytes");
}

void doubling(int p) {
  const auto schedules = for_all(p, [p](int rank) { return ccore::doubling_all_reduce(rank, p); });
  const SymbolicRun run = run_from_full_input(schedules);
  EXPECT(run.problem.empty(), run.problem);
  const int up = log2_up(p);
  EXPECT(run.rounds == ((1 << up) == p ? up : up + 1), p, " ranks took ", run.rounds);
  for (int rank = 0; rank < p; ++rank) expect_once_each(held(run, rank, 0));
  // Every result is divided once on its way to every rank, and after all of it is there.
  for (const Schedule& schedule : schedules) {
    int divided = 0;
    int folded = 0;
    for (const ccore::Step& step : schedule.steps) {
      EXPECT(divided == 0 || step.action == ccore::Action::copy, "a fold after the division");
      folded += step.action != ccore::Action::copy;
      divided += step.completes;
    }
    EXPECT(divided == std::min(1, folded), "rank ", schedule.rank, " divides ", divided, " times");
  }
}

void broadcasts(int p, int root) {
  const auto chain = for_all(p, [=](int rank) { return ccore::chain_broadcast(rank, p, root); });
  const auto tree = for_all(p, [=](int rank) { return ccore::tree_broadcast(rank, p, root); });
  for (const auto* schedules : {&chain, &tree}) {
    const SymbolicRun run = run_from_root(*schedules, root);
    EXPECT(run.problem.empty(), run.problem);
    for (int rank = 0; rank < p; ++rank) expect_only(held(run, rank, 0), root);
    EXPECT(run.rounds == (schedules == &chain ? p - 1 : log2_up(p)), p, " ranks, root ", root, ": ", run.rounds);
    size_t total = 0;
    size_t most = 0;
    for (const Schedule& schedule : *schedules) {
      total += elements_sent(schedule, 100);
      most = std::max(most, elements_sent(schedule, 100));
    }
    EXPECT(total == 100 * static_cast<size_t>(p - 1), "every rank but the root receives once");
    const int sends = schedules == &chain ? std::min(1, p - 1) : log2_up(p);
    EXPECT(most == 100 * static_cast<size_t>(sends), "the busiest rank sends ", most);
  }
}

void reductions_to_one(int p, int root) {
  for (const int nblocks : {1, 2, 5}) {
    const auto chain = for_all(p, [=](int rank) { return ccore::chain_reduce(rank, p, root, nblocks); });
    const SymbolicRun run = run_from_full_input(chain);
    EXPECT(run.problem.empty(), run.problem);
    for (int block = 0; block < nblocks; ++block) expect_once_each(held(run, root, block));
    EXPECT(run.rounds == (p == 1 ? 0 : p - 2 + nblocks), p, " ranks took ", run.rounds);
    for (int rank = 0; rank < p; ++rank) {
      for (const ccore::Step& step : chain[static_cast<size_t>(rank)].steps) {
        EXPECT(step.completes == (rank == root), "only the root has the whole");
      }
    }
  }
  const auto tree = for_all(p, [=](int rank) { return ccore::tree_reduce(rank, p, root); });
  const SymbolicRun run = run_from_full_input(tree);
  EXPECT(run.problem.empty(), run.problem);
  expect_once_each(held(run, root, 0));
  EXPECT(run.rounds == log2_up(p), p, " ranks took ", run.rounds);
  int completes = 0;
  for (const Schedule& schedule : tree) {
    for (const ccore::Step& step : schedule.steps) completes += step.completes ? 1 : 0;
  }
  EXPECT(completes == (p > 1 ? 1 : 0), "an average is divided ", completes, " times");
}

void direct(int p, int root) {
  const auto gather = for_all(p, [=](int rank) { return ccore::direct_gather(rank, p, root); });
  const SymbolicRun gathered = run_from_own_block(gather);
  EXPECT(gathered.problem.empty(), gathered.problem);
  for (int block = 0; block < p; ++block) expect_only(held(gathered, root, block), block);
  const auto scatter = for_all(p, [=](int rank) { return ccore::direct_scatter(rank, p, root); });
  const SymbolicRun scattered = run_from_root(scatter, root);
  EXPECT(scattered.problem.empty(), scattered.problem);
  for (int rank = 0; rank < p; ++rank) expect_only(held(scattered, rank, rank), root);
}

void all_to_all(int p) {
  const auto schedules = for_all(p, [p](int rank) { return ccore::pairwise_all_to_all(rank, p); });
  const SymbolicRun run = run_from_own_row(schedules);
  EXPECT(run.problem.empty(), run.problem);
  EXPECT(run.rounds == p - 1, p, " ranks took ", run.rounds);
  for (int rank = 0; rank < p; ++rank) {
    for (int source = 0; source < p; ++source) expect_only(held(run, rank, source * p + rank), source);
  }
}

void barrier(int p) {
  const auto schedules = for_all(p, [p](int rank) { return ccore::dissemination_barrier(rank, p); });
  const SymbolicRun run = run_tokens(schedules);
  EXPECT(run.problem.empty(), run.problem);
  EXPECT(run.rounds == log2_up(p), p, " ranks took ", run.rounds);
  for (int rank = 0; rank < p; ++rank) expect_once_each(held(run, rank, 0));
}

// The checker must be able to say no.
void broken_schedules_are_found() {
  auto schedules = for_all(4, [](int rank) { return ccore::ring_all_reduce(rank, 4); });
  schedules[2].steps[1].recv_block = 0;
  EXPECT(!run_from_full_input(schedules).problem.empty(), "a wrong block was not noticed");
  schedules = for_all(4, [](int rank) { return ccore::ring_all_reduce(rank, 4); });
  schedules[1].steps.pop_back();
  EXPECT(!run_from_full_input(schedules).problem.empty(), "a missing step was not noticed");
  schedules = for_all(4, [](int rank) { return ccore::ring_all_reduce(rank, 4); });
  schedules[3].steps[0].action = ccore::Action::copy;
  const SymbolicRun run = run_from_full_input(schedules);
  const auto& counts = held(run, 0, 1);
  EXPECT(std::any_of(counts.begin(), counts.end(), [](int n) { return n != 1; }),
         "a lost contribution was not noticed");
}

void blocks() {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{6}, size_t{7}, size_t{8}, size_t{1000003}}) {
    size_t next = 0;
    for (int block = 0; block < 7; ++block) {
      const ccore::Block one = ccore::block_of(count, 7, block);
      EXPECT(one.begin == next, "blocks must follow each other");
      EXPECT(one.count == count / 7 || one.count == count / 7 + 1, "blocks must be even");
      next += one.count;
    }
    EXPECT(next == count, "blocks must cover everything");
  }
}

}  // namespace

void schedules() {
  blocks();
  broken_schedules_are_found();
  for (int p = 1; p <= kMostRanks; ++p) {
    rings(p);
    doubling(p);
    barrier(p);
    all_to_all(p);
    for (int root = 0; root < p; root += 1 + p / 5) {
      broadcasts(p, root);
      reductions_to_one(p, root);
      direct(p, root);
    }
  }
}

}  // namespace test
