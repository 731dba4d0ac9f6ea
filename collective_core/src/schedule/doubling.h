// Recursive doubling: every rank ends with the whole after log2(p) exchanges of all the data.
#pragma once

#include "schedule/schedule.h"

namespace ccore {

// Any number of ranks. Those beyond the largest power of two hand their data to a neighbour before the
// exchanges and get the result after them (Thakur, Rabenseifner, Gropp, "Optimization of collective
// communication operations in MPICH", 2005). Ranks are folded in their order, so that all results have the
// same bits.
Schedule doubling_all_reduce(int rank, int nranks);

}  // namespace ccore
