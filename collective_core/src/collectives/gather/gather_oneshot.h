// Inside a node: every other rank writes its part into its slots, and the root reads there.
#pragma once

#include "collectives/context.h"

namespace ccore {

// As of gather_direct(); context.arena is not null.
void gather_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
