// Much data inside a node: each rank reduces its block of every chunk, reading the others' parts where they wrote
// them, and collects the other blocks.
#pragma once

#include "collectives/context.h"

namespace ccore {

// context.arena is not null.
void all_reduce_twoshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op);

}  // namespace ccore
