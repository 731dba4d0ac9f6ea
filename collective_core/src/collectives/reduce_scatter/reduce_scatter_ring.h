// Ring reduce-scatter: p-1 steps, p-1 blocks over every link.
#pragma once

#include "collectives/context.h"

namespace ccore {

// count elements per rank come out; send has nranks * count.
void reduce_scatter_ring(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                         cc_redop op);

}  // namespace ccore
