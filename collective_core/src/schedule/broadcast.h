// Broadcast schedules.
#pragma once

#include "schedule/schedule.h"

namespace ccore {

// root -> root+1 -> ... : one step per rank, every link carries the data once, bytes flow on as they arrive.
Schedule chain_broadcast(int rank, int nranks, int root);
// Binomial tree: ceil(log2 p) rounds; for messages so small that only latency counts.
Schedule tree_broadcast(int rank, int nranks, int root);

}  // namespace ccore
