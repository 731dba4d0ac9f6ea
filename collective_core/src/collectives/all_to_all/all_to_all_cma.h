// Much data inside a node: every rank has the kernel copy its parts of the others' inputs ("cross memory attach").
#pragma once

#include "collectives/context.h"

namespace ccore {

// bytes: of the part of one rank for another; context.arena and context.cross_memory are not null. Through slots where
// the kernel does not copy.
void all_to_all_cma(const Context& context, const void* send, void* recv, size_t bytes);

}  // namespace ccore
