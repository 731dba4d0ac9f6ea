// Schedules in which every block goes straight from its owner to its reader.
#pragma once

#include "schedule/schedule.h"

namespace ccore {

// Block r goes from rank r to the root.
Schedule direct_gather(int rank, int nranks, int root);
// Block r goes from the root to rank r.
Schedule direct_scatter(int rank, int nranks, int root);
// Every rank sends block b to rank b, which folds them in the order b-1, b-2, ... and sends the sum to all; in step
// k each time to the k-th rank after it. So no rank is sent to by two at once, and the sum has the same bits on all.
Schedule direct_all_reduce(int rank, int nranks);
// Block s*p+r goes from rank s to rank r; in step k a rank sends to the k-th after it and receives from the
// k-th before it.
Schedule pairwise_all_to_all(int rank, int nranks);

}  // namespace ccore
