// Reduce: the root ends with the reduction of what all ranks have. recv is written on the root only.
#pragma once

#include "collectives/context.h"

namespace ccore {

// By an algorithm of algorithms_of(Kind::reduce).
void reduce_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
               cc_redop op, int root);

// Pipelined chain to the root: every link carries the data once, for large data.
void reduce_chain(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                  int root);

// Binomial tree to the root: ceil(log2 p) rounds, for little data.
void reduce_tree(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                 int root);

// In the memory of a node; context.arena is not null.

// For little data: all others write it into their slots, and the root reduces it.
void reduce_oneshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                    int root);

// For much data: through the slots, in two shots.
void reduce_twoshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                    int root);

// For much data: each rank has the kernel copy its block of the others' inputs ("cross memory attach"), reduces it, and
// has it copied into the root's output; through slots where the kernel does not copy. The same bits in both cases.
// context.cross_memory is not null.
void reduce_cma(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                int root);

}  // namespace ccore
