// Pipelined chain broadcast: p-1 hops, every link carries the data once.
#pragma once

#include "collectives/context.h"

namespace ccore {

void broadcast_chain(const Context& context, const void* send, void* recv, size_t bytes, int root);

}  // namespace ccore
