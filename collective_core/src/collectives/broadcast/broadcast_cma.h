// Much data inside a node: every other rank has the kernel copy it from the root's buffer ("cross memory attach").
#pragma once

#include "collectives/context.h"

namespace ccore {

// context.arena and context.cross_memory are not null. Through slots where the kernel does not copy.
void broadcast_cma(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
