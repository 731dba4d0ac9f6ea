// Much data inside a node: each rank has the kernel copy its block of the others' inputs ("cross memory attach"),
// reduces it, and has it copied into the root's output.
#pragma once

#include "collectives/context.h"

namespace ccore {

// recv is written on the root only. context.arena and context.cross_memory are not null. Through slots where the kernel
// does not copy. The same bits in both cases.
void reduce_cma(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                int root);

}  // namespace ccore
