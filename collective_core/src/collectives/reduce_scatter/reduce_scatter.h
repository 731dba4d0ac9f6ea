// Reduce-scatter: every rank ends with its part of the reduction: count elements of the nranks * count in send.
#pragma once

#include "collectives/context.h"

namespace ccore {

// By an algorithm of algorithms_of(Kind::reduce_scatter).
void reduce_scatter_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t count,
                       cc_dtype dtype, cc_redop op);

// p-1 steps, p-1 blocks over every link.
void reduce_scatter_ring(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                         cc_redop op);

// In the memory of a node; context.arena is not null.

// Every rank writes the others' parts into its slots, and reduces its own of what they wrote.
void reduce_scatter_oneshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                            cc_redop op);

// For much data: every rank has the kernel copy the others' inputs for its own part ("cross memory attach"), and reduces
// them; through slots where the kernel does not copy. The same bits in both cases. context.cross_memory is not null.
void reduce_scatter_cma(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op);

}  // namespace ccore
