// Much data inside a node, in any memory: two shots without slots. Each rank has the kernel copy its block of the
// others' inputs, reduces it, and has it copied into everyone's output ("cross memory attach").
#pragma once

#include "collectives/context.h"

namespace ccore {

// context.arena and context.cross_memory are not null. Where all buffers are registered, they are reached as they are
// mapped. Where the kernel does not copy from one of them, and where so much data is not in place that it had better pass
// the caches, all go through the slots. The same bits in each case.
void all_reduce_cma(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op);

}  // namespace ccore
