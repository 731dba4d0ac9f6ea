// Ring schedules: every rank sends to the next one and receives from the one before.
#pragma once

#include "schedule/schedule.h"

namespace ccore {

// p-1 steps; afterwards block `rank` is complete on this rank.
Schedule ring_reduce_scatter(int rank, int nranks);
// p-1 steps; starts from block `rank`, ends with all.
Schedule ring_all_gather(int rank, int nranks);
// 2(p-1) steps: the reduce-scatter, then the all-gather of the complete blocks.
Schedule ring_all_reduce(int rank, int nranks);

}  // namespace ccore
