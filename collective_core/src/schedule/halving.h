// Halving and doubling: a reduce-scatter by exchanges of ever smaller halves, then an all-gather backwards.
#pragma once

#include "schedule/schedule.h"

namespace ccore {

// Any number of ranks (see powers.h). The first and largest exchange is with the nearest rank, which is on the
// same node if any is (R. Rabenseifner, "Optimization of collective reduction operations", 2004).
Schedule halving_all_reduce(int rank, int nranks);

}  // namespace ccore
