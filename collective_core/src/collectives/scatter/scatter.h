// Scatter: every rank ends with its part of the root's data. bytes: of one part; send (all parts) is read on the root
// only.
#pragma once

#include "collectives/context.h"

namespace ccore {

// By an algorithm of algorithms_of(Kind::scatter).
void scatter_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t bytes, int root);

// The root sends every rank its part.
void scatter_direct(const Context& context, const void* send, void* recv, size_t bytes, int root);

// Inside a node: the root writes all parts into its slots, and the others read theirs there. context.arena is not null.
void scatter_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root);

// Much data inside a node: every other rank has the kernel copy its part from the root's buffer ("cross memory
// attach"); through slots where the kernel does not copy. context.arena and context.cross_memory are not null.
void scatter_cma(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
