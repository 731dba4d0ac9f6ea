// All-reduce by recursive doubling: log2(p) steps, all the data in each; for messages whose time is latency.
#pragma once

#include "collectives/context.h"

namespace ccore {

void all_reduce_doubling(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                         cc_redop op);

}  // namespace ccore
