// The dense stages of a node around an exchange between nodes: the first ranks of the node own one part of the
// vector each, sum it over the node, and after the exchange give it to the others.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/context.h"
#include "schedule/schedule.h"

namespace ccore {

// Ranks 0 .. shards-1 of the context end with the sum over all its ranks of their own part in recv; the rest of
// recv is not written. Part s is block_of(count, shards, s). In place: send == recv. p-1 steps, no memory beside
// the buffers: each rank sends every other owner its part, and an owner adds them up in one order.
void sum_to_owners(const Context& context, int shards, const void* send, void* recv, size_t count,
                   cc_dtype dtype);

// All ranks end with all parts of recv, of which each owner has its own. A ring.
void gather_from_owners(const Context& context, int shards, void* recv, size_t count, cc_dtype dtype);

}  // namespace ccore
