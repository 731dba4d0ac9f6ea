// Pipelined chain to the root: every link carries the data once, for large data.
#pragma once

#include "collectives/context.h"

namespace ccore {

// recv is written on the root only.
void reduce_chain(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                  int root);

}  // namespace ccore
