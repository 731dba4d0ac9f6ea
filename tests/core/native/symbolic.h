// Runs the schedules of all ranks on sets of contributions instead of numbers: proves, without a network,
// that every rank ends with every contribution exactly once, that no rank waits for ever, and that a reduction in
// place overwrites nothing that is still to be sent.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace test {

struct SymbolicRun {
  std::string problem;  // empty when the schedules fit together
  // holds[rank][block][contributor]: how often that contribution is in the final block of that rank.
  std::vector<std::vector<std::vector<int>>> holds;
  int rounds = 0;  // parallel communication steps until the last rank is done
};

// One function per starting state; schedules[i] is the schedule of rank i. A link holds one block at most.
SymbolicRun run_from_full_input(const std::vector<ccore::Schedule>& schedules);      // reductions
SymbolicRun run_from_own_block(const std::vector<ccore::Schedule>& schedules);       // all-gather, gather
SymbolicRun run_from_own_row(const std::vector<ccore::Schedule>& schedules);  // all-to-all: blocks rank*p to rank*p+p-1
SymbolicRun run_from_root(const std::vector<ccore::Schedule>& schedules, int root);  // broadcast, scatter
// The barrier: a token carries the set of ranks that its sender knows to have arrived.
SymbolicRun run_tokens(const std::vector<ccore::Schedule>& schedules);

// The same with every block cut in two: run with links that hold a block, it is the original with links that
// hold but half of one.
ccore::Schedule halved(const ccore::Schedule& schedule);

// Elements that this rank sends in all, for a collective over `count` elements.
size_t elements_sent(const ccore::Schedule& schedule, size_t count);

}  // namespace test
