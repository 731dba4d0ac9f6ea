// All-reduce by halving and doubling: 2*log2(p) steps, 2(p-1)/p of the data from every rank where p is a power of two.
#pragma once

#include "collectives/context.h"

namespace ccore {

void all_reduce_halving(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                   cc_redop op);

}  // namespace ccore
