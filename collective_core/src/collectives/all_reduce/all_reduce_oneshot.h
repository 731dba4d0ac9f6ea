// Little data inside a node: every rank reads the data of all others and reduces it by itself.
#pragma once

#include "collectives/context.h"

namespace ccore {

// context.arena is not null. Data that does not fit a slot area is reduced piece by piece.
void all_reduce_oneshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op);

}  // namespace ccore
