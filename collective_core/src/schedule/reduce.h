// Reductions to one rank.
#pragma once

#include "schedule/schedule.h"

namespace ccore {

// root-1 -> ... -> root, in nblocks blocks: each rank adds its own part to what passes; every link carries the
// data once.
Schedule chain_reduce(int rank, int nranks, int root, int nblocks);
// Binomial tree: ceil(log2 p) rounds; for messages so small that only latency counts. Ranks are folded in the
// order of their places after the root.
Schedule tree_reduce(int rank, int nranks, int root);

}  // namespace ccore
