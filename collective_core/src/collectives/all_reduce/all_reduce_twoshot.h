// Much data inside a node: in place where all have registered their memory, else through the slots.
#pragma once

#include "collectives/context.h"

namespace ccore {

// context.arena is not null.
void all_reduce_twoshot(const Context& context, const void* send, void* recv, size_t count, cc_dtype dtype,
                        cc_redop op);

}  // namespace ccore
