// Gather: the root ends with all ranks' parts. bytes: of one part; recv (all parts) is written on the root only.
#pragma once

#include "collectives/context.h"

namespace ccore {

// By an algorithm of algorithms_of(Kind::gather).
void gather_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t bytes, int root);

// Every rank sends its part straight to the root.
void gather_direct(const Context& context, const void* send, void* recv, size_t bytes, int root);

// Inside a node: every other rank writes its part into its slots, and the root reads there. context.arena is not null.
void gather_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root);

// Much data inside a node: every other rank has the kernel copy its part into the root's buffer ("cross memory
// attach"); through slots where the kernel does not copy. context.arena and context.cross_memory are not null.
void gather_cma(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
