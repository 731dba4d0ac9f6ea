// Ring all-reduce: 2(p-1) steps, 2(p-1)/p of the data over every link.
#pragma once

#include "collectives/context.h"

namespace ccore {

void all_reduce_ring(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                     cc_redop op);

}  // namespace ccore
