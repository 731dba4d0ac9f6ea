// Broadcast: every rank ends with the root's data.
#pragma once

#include "collectives/context.h"

namespace ccore {

// By an algorithm of algorithms_of(Kind::broadcast).
void broadcast_by(Algorithm algorithm, const Context& context, const void* send, void* recv, size_t bytes, int root);

// Pipelined chain: p-1 hops, every link carries the data once.
void broadcast_chain(const Context& context, const void* send, void* recv, size_t bytes, int root);

// Binomial tree: ceil(log2 p) rounds; the root sends the data ceil(log2 p) times.
void broadcast_tree(const Context& context, const void* send, void* recv, size_t bytes, int root);

// Inside a node: the root writes into its slots, and all others read there. context.arena is not null.
void broadcast_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root);

// Much data inside a node: every other rank has the kernel copy it from the root's buffer ("cross memory attach");
// through slots where the kernel does not copy. context.arena and context.cross_memory are not null.
void broadcast_cma(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
