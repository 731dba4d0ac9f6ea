// Dissemination barrier (Hensgen, Finkel, Manber 1988): ceil(log2 p) rounds, one token each.
#pragma once

#include "schedule/schedule.h"

namespace ccore {

Schedule dissemination_barrier(int rank, int nranks);

}  // namespace ccore
