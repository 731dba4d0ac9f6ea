// Binomial tree broadcast: ceil(log2 p) rounds; the root sends the data ceil(log2 p) times.
#pragma once

#include "collectives/context.h"

namespace ccore {

void broadcast_tree(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
