// Little data inside a node: all others write it into their slots, and the root reduces it.
#pragma once

#include "collectives/context.h"

namespace ccore {

// recv is written on the root only. context.arena is not null.
void reduce_oneshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype, cc_redop op,
                    int root);

}  // namespace ccore
