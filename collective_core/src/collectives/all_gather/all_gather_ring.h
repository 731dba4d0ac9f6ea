// Ring all-gather: p-1 steps, p-1 blocks over every link.
#pragma once

#include "collectives/context.h"

namespace ccore {

// count elements per rank.
void all_gather_ring(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype);

}  // namespace ccore
