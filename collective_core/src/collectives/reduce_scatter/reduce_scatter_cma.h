// Much data inside a node: every rank has the kernel copy the others' inputs for its own part ("cross memory attach"),
// and reduces them.
#pragma once

#include "collectives/context.h"

namespace ccore {

// As of reduce_scatter_ring(); context.arena and context.cross_memory are not null. Through slots where the kernel does
// not copy. The same bits in both cases.
void reduce_scatter_cma(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op);

}  // namespace ccore
