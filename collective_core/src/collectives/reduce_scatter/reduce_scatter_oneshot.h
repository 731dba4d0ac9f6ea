// Inside a node: every rank writes the others' parts into its slots, and reduces its own of what they wrote.
#pragma once

#include "collectives/context.h"

namespace ccore {

// As of reduce_scatter_ring(); context.arena is not null.
void reduce_scatter_oneshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                            cc_redop op);

}  // namespace ccore
