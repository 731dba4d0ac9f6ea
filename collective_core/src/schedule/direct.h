// Schedules in which every block goes straight from its owner to its reader.
#pragma once

#include "schedule/schedule.h"

namespace ccore {

// Block r goes from rank r to the root.
Schedule direct_gather(int rank, int nranks, int root);
// Block r goes from the root to rank r.
Schedule direct_scatter(int rank, int nranks, int root);
// Block s*p+r goes from rank s to rank r; in step k a rank sends to the k-th after it and receives from the
// k-th before it.
Schedule pairwise_all_to_all(int rank, int nranks);

}  // namespace ccore
