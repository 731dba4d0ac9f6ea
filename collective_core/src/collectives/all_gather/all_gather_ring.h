// Ring all-gather: p-1 steps, p-1 blocks over every link.
#pragma once

#include <vector>

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// blocks[r]: where in recv what comes from rank r goes, in bytes.
void all_gather_ring(const Context& context, const void* send, void* recv, const std::vector<Block>& blocks);

}  // namespace ccore
