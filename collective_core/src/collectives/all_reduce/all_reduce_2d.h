// Hierarchical all-reduce: reduce-scatter within the nodes, rings between them, all-gather within the nodes.
#pragma once

#include "collectives/context.h"

namespace ccore {

// Of all ranks of a communicator: context.places must be there.
void all_reduce_2d(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                   cc_redop op);

}  // namespace ccore
