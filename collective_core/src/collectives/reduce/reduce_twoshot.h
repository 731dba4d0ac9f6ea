// Much data inside a node: through the slots, in two shots.
#pragma once

#include "collectives/context.h"

namespace ccore {

// recv is written on the root only. context.arena is not null.
void reduce_twoshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                    int root);

}  // namespace ccore
