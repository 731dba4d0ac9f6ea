// Binomial tree to the root: ceil(log2 p) rounds, for little data.
#pragma once

#include "collectives/context.h"

namespace ccore {

// recv is written on the root only.
void reduce_tree(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                 int root);

}  // namespace ccore
