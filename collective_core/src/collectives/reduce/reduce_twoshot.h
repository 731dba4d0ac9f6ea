// Much data inside a node: each rank reduces its block of every chunk, reading the others' parts where they wrote
// them, and the root collects the other blocks.
#pragma once

#include "collectives/context.h"

namespace ccore {

// recv is written on the root only. context.arena is not null.
void reduce_twoshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                    int root);

}  // namespace ccore
