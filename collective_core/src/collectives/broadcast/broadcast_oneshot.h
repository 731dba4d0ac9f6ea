// Inside a node: the root writes into its slots, and all others read there.
#pragma once

#include "collectives/context.h"

namespace ccore {

// context.arena is not null.
void broadcast_oneshot(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
